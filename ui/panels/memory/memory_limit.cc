#include "ui/panels/memory/memory_limit.h"

#include <imgui.h>

#include <algorithm>

#include "trace/analysis/report.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

constexpr std::string_view kKey = "engine.memory_limit";
constexpr std::string_view kOutOfMemory = "out of memory: ";
constexpr float kLineHeight = 16;
constexpr float kPadding = 5;

}  // namespace

int64_t MemoryLimitOf(const query::Snapshot& snapshot) {
  const auto found = snapshot.config.find(std::string(kKey));
  return found == snapshot.config.end() ? 0 : ParseBytes(found->second).value_or(0);
}

void DrawMemoryLimit(const ui::Context& context, int64_t limit_bytes, const ui::Box& box, float y,
                     ui::DrawLog* log) {
  const widgets::Look look = widgets::LookOf(context);
  const ui::Color color = look.theme.op.exposed;
  timeline::DrawDashedHorizontal(look, box.x0 + look.Px(3), box.x1 - look.Px(3), y, color);
  const std::string text = std::string(kKey) + " " + FormatBytes(limit_bytes);
  const widgets::TextStyle style{look.fonts.text, ui::kSmallTextSize, color};
  const ImVec2 size = widgets::TextSize(look, style, text);
  const ImVec2 at(box.x0 + look.Px(4), y + look.Px(2));
  ui::Box drawn{box.x0, y, box.x1, y + look.Px(1)};
  if (size.x < box.x1 - box.x0 - look.Px(8)) {
    ImGui::GetWindowDrawList()->AddRectFilled(  // readable over any band
        {at.x - look.Px(3), at.y}, {at.x + size.x + look.Px(3), at.y + size.y},
        ui::WithAlpha(look.theme.surface.panel, 0.8F));
    drawn = widgets::DrawText(look, style, at, text);
  }
  log->Int("memory_limit", text, limit_bytes, "B", drawn);
}

std::string OutOfMemoryOf(const ui::Context& context) {
  if (Contains(context.control.error, kOutOfMemory)) return context.control.error;
  if (context.snapshot == nullptr) return "";
  for (const query::Marker& error : analysis::ErrorsOf(*context.snapshot)) {
    if (Contains(error.new_value, kOutOfMemory)) return error.new_value;
  }
  return "";
}

std::vector<std::string_view> OutOfMemoryLines(std::string_view text) {
  std::vector<std::string_view> lines;
  for (const std::string_view next : {". At the peak", ". What fits", ". No key"}) {
    const size_t end = text.find(next);
    if (end == std::string_view::npos) continue;
    lines.push_back(text.substr(0, end));
    text.remove_prefix(end + 2);
  }
  lines.push_back(text);
  return lines;
}

float DrawOutOfMemory(const ui::Context& context, const ui::Box& box, ui::DrawLog* log) {
  const std::string text = OutOfMemoryOf(context);
  if (text.empty()) return box.y0;
  const widgets::Look look = widgets::LookOf(context);
  std::vector<std::string_view> lines = OutOfMemoryLines(text);
  // What to do is the last that may be left out.
  while (lines.size() > 1 &&
         box.y0 + look.Px(kLineHeight * static_cast<float>(lines.size()) + 2 * kPadding) > box.y1) {
    lines.erase(lines.begin() + (lines.size() > 2 ? 1 : 0));
  }
  const float end = box.y0 + look.Px(kLineHeight * static_cast<float>(lines.size()) + 2 * kPadding);
  const float rounding = look.Px(ui::kRounding);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({box.x0, box.y0}, {box.x1, end},
                      ui::Mix(look.theme.surface.panel, look.theme.op.exposed, 0.14F), rounding);
  list->AddRect({box.x0, box.y0}, {box.x1, end}, look.theme.op.exposed, rounding, look.Px(1));
  const float x = box.x0 + look.Px(ui::kPanelPadding);
  float y = box.y0 + look.Px(kPadding);
  for (size_t at = 0; at < lines.size(); ++at) {
    const bool is_remedy = at + 1 == lines.size();
    const widgets::TextStyle style = is_remedy ? widgets::BoldOf(look) : widgets::DimOf(look);
    const std::string line(lines[at]);
    log->Text("out_of_memory:" + std::to_string(at), line,
              widgets::DrawTextClipped(look, style, {x, y}, box.x1 - x, line));
    y += look.Px(kLineHeight);
  }
  if (!context.headless && ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, end})) {
    widgets::Tooltip(look, std::string(lines.back()), text, look.theme.op.exposed);
  }
  return end + look.Px(kPadding);
}

}  // namespace shardscope::panels
