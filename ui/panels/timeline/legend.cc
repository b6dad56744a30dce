#include "ui/panels/timeline/legend.h"

#include <imgui.h>

#include <algorithm>
#include <string>
#include <vector>

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

bool HasTrack(const ui::Context& context, query::TrackRole role) {
  const query::Snapshot* snapshot = context.snapshot.get();
  return snapshot != nullptr && std::ranges::any_of(snapshot->tracks, [role](const auto& track) {
           return track.role == role;
         });
}

// Collectives are those that the run has a lane for; before it is known, FSDP's.
std::vector<Entry> Entries(const ui::Context& context) {
  const ui::OpColors& colors = context.theme->op;
  const bool reduces = HasTrack(context, query::TrackRole::kAllReduce);
  const bool shards = !reduces || HasTrack(context, query::TrackRole::kAllGather);
  std::vector<Entry> entries = {{ui::Text::kForward, colors.forward},
                                {ui::Text::kBackward, colors.backward}};
  if (shards) {
    entries.push_back({ui::Text::kAllGather, colors.all_gather});
    entries.push_back({ui::Text::kReduceScatter, colors.reduce_scatter});
  }
  if (reduces) entries.push_back({ui::Text::kAllReduce, colors.all_reduce});
  entries.push_back({ui::Text::kOptimizer, colors.optimizer});
  entries.push_back({ui::Text::kWait, colors.wait});
  entries.push_back({ui::Text::kStall});
  entries.push_back({ui::Text::kEmulated, shards ? colors.all_gather : colors.all_reduce, true});
  return entries;
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
  for (const Entry& entry : Entries(context)) {
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
