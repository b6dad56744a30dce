#include "ui/panels/timeline/legend.h"

#include <imgui.h>

#include <array>
#include <string>

#include "ui/text.h"
#include "ui/timeline/draw/draw_lane.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using widgets::Look;

constexpr float kLine = 18;
constexpr float kSwatchWidth = 22;  // wide enough to show a hatch
constexpr float kSwatchHeight = 11;
constexpr float kEntryGap = 14;

struct Entry {
  ui::Text name;
  ui::Color color = 0;  // 0: a stall
  bool emulated = false;
};

std::array<Entry, 8> Entries(const ui::OpColors& colors) {
  return {{{ui::Text::kForward, colors.forward},
           {ui::Text::kBackward, colors.backward},
           {ui::Text::kAllGather, colors.all_gather},
           {ui::Text::kReduceScatter, colors.reduce_scatter},
           {ui::Text::kOptimizer, colors.optimizer},
           {ui::Text::kWait, colors.wait},
           {ui::Text::kStall},
           {ui::Text::kEmulated, colors.all_gather, true}}};
}

void DrawEntry(const Look& look, const Entry& entry, const ui::Box& swatch) {
  if (entry.color == 0) {
    timeline::DrawStallBox(look, swatch, swatch.x0, false);
    return;
  }
  ImGui::GetWindowDrawList()->AddRectFilled({swatch.x0, swatch.y0}, {swatch.x1, swatch.y1},
                                            entry.color, look.Px(2));
  if (entry.emulated) timeline::DrawEmulatedHatch(look, swatch, swatch.x0);
}

}  // namespace

float DrawTimelineLegend(const ui::Context& context, const ui::Box& box, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const widgets::TextStyle style{look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim};
  float x = box.x0;
  float y = box.y0;
  for (const Entry& entry : Entries(look.theme.op)) {
    const char* name = ui::Tr(context.language, entry.name);
    const float width = look.Px(kSwatchWidth + 5) + widgets::TextSize(look, style, name).x;
    if (x > box.x0 && x + width > box.x1) {
      x = box.x0;
      y += look.Px(kLine);
    }
    const float top = y + look.Px((kLine - kSwatchHeight) / 2);
    const ui::Box swatch{x, top, x + look.Px(kSwatchWidth), top + look.Px(kSwatchHeight)};
    DrawEntry(look, entry, swatch);
    widgets::DrawText(look, style, {swatch.x1 + look.Px(5), y + look.Px(2)}, name);
    log->Text(std::string("legend:") + ui::Tr(ui::Language::kEnglish, entry.name), name, swatch);
    x += width + look.Px(kEntryGap);
  }
  return y + look.Px(kLine);
}

}  // namespace shardscope::panels
