#include "ui/panels/timeline/area_marker.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using timeline::Axis;
using timeline::RankBlock;
using widgets::Look;

constexpr float kGrab = 5;       // how near to an edge the mouse takes it
constexpr float kLeastDrag = 3;  // else it is a click
constexpr float kLabelPadding = 6;

// In the run: nothing else can be measured.
Interval InRun(const query::Snapshot& snapshot, int64_t a, int64_t b) {
  return {std::clamp(std::min(a, b), snapshot.start_ns, snapshot.end_ns),
          std::clamp(std::max(a, b), snapshot.start_ns, snapshot.end_ns)};
}

bool Includes(const analysis::AreaQuery& area, int32_t rank) {
  return area.ranks.empty() ||
         std::find(area.ranks.begin(), area.ranks.end(), rank) != area.ranks.end();
}

// The edge under the mouse stays 0 (start), 1 (end); -1: none.
int EdgeAt(const ui::Context& context, const Axis& axis, float x) {
  if (!context.area.query) return -1;
  const Interval& time = context.area.query->time;
  const float to_start = std::fabs(axis.X(time.start_ns) - x);
  const float to_end = std::fabs(axis.X(time.end_ns) - x);
  if (std::min(to_start, to_end) > kGrab * context.scale) return -1;
  return to_start < to_end ? 0 : 1;
}

void MarkStepAt(const query::Snapshot& snapshot, int64_t time_ns, ui::Commands* commands) {
  for (const query::Step& step : snapshot.ranks.front().steps) {
    if (time_ns < step.start_ns || time_ns >= step.end_ns) continue;
    const Result<analysis::AreaQuery> area = analysis::ResolveArea(snapshot, {step.step, {}}, {});
    if (area.ok()) commands->push_back(ui::SelectArea{*area});
    return;
  }
}

}  // namespace

void AreaMarker::HandleRuler(const ui::Context& context, const Axis& axis, const ui::Box& ruler,
                             ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ImVec2 cursor = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({ruler.x0, ruler.y0});
  ImGui::InvisibleButton("##ruler", {ruler.x1 - ruler.x0, ruler.y1 - ruler.y0});
  ImGui::SetCursorScreenPos(cursor);
  if (context.headless) return;
  const query::Snapshot& snapshot = *context.snapshot;
  const float x = ImGui::GetIO().MousePos.x;
  const int edge = EdgeAt(context, axis, x);
  hovers_ = ImGui::IsItemHovered();
  if (hovers_) {
    commands->push_back(ui::SetHover{axis.Ns(x)});
    if (!ImGui::IsItemActive()) {
      widgets::ItemTooltip(look, ui::Tr(context.language, ui::Text::kAreaTip), "");
    }
    if (edge >= 0) ImGui::SetMouseCursor(ImGuiMouseCursor_ResizeEW);
  }
  if (ImGui::IsItemActivated()) {
    moves_ = edge >= 0;
    fixed_ns_ = axis.Ns(x);
    ranks_.clear();
    if (edge >= 0) ranks_ = context.area.query->ranks;
    if (edge == 0) fixed_ns_ = context.area.query->time.end_ns;
    if (edge == 1) fixed_ns_ = context.area.query->time.start_ns;
  }
  if (ImGui::IsItemHovered() && ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left)) {
    MarkStepAt(snapshot, axis.Ns(x), commands);
    moves_ = true;  // no click
    return;
  }
  // A frame may see the last move and the release at once.
  const bool is_released = ImGui::IsItemDeactivated();
  if (!ImGui::IsItemActive() && !is_released) return;
  if (!is_released) commands->push_back(ui::HoldView{});
  const bool is_far =
      std::fabs(ImGui::GetMouseDragDelta(ImGuiMouseButton_Left, 0).x) > kLeastDrag * context.scale;
  moves_ = moves_ || is_far;
  const Interval time = InRun(snapshot, fixed_ns_, axis.Ns(x));
  if (moves_ && is_far && time.end_ns > time.start_ns) {
    commands->push_back(ui::SelectArea{analysis::AreaQuery{time, ranks_}});
  } else if (is_released && !moves_ && context.area.query) {
    commands->push_back(ui::SelectArea{});
  }
}

void MarkLanes(const ui::Context& context, const timeline::Layout& layout, float origin,
               const timeline::AxisInput::Marking& marking, ui::Commands* commands) {
  const query::Snapshot& snapshot = *context.snapshot;
  const Interval time = InRun(snapshot, marking.range.start_ns, marking.range.end_ns);
  if (time.end_ns <= time.start_ns) return;
  const auto [top, bottom] = std::minmax({marking.from_y, marking.to_y});
  std::vector<int32_t> ranks;
  for (const RankBlock& block : layout.ranks) {
    const float y = origin + block.y;
    if (bottom >= y && top < y + block.height) ranks.push_back(block.rank);
  }
  if (ranks.size() == snapshot.ranks.size()) ranks.clear();  // all, none of them hidden
  commands->push_back(ui::SelectArea{analysis::AreaQuery{time, std::move(ranks)}});
}

void DrawAreaInRuler(const ui::Context& context, const Axis& axis, const ui::Box& ruler,
                     ui::DrawLog* log) {
  if (!context.area.query) return;
  const Look look = widgets::LookOf(context);
  const Interval& time = context.area.query->time;
  const float x0 = std::round(axis.X(time.start_ns));
  const float x1 = std::round(axis.X(time.end_ns));
  const ui::Color accent = look.theme.state.accent;
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->PushClipRect({ruler.x0, ruler.y0}, {ruler.x1, ruler.y1}, true);
  list->AddRectFilled({x0, ruler.y0}, {x1, ruler.y1}, ui::WithAlpha(accent, 0.22F));
  for (const float x : {x0, x1}) {
    list->AddRectFilled({x - look.Px(1), ruler.y0}, {x + look.Px(1), ruler.y1}, accent);
  }
  const std::string text = ui::FormatDuration(time.end_ns - time.start_ns);
  const widgets::TextStyle style = widgets::BoldOf(look);
  const float width = widgets::TextSize(look, style, text).x + look.Px(2 * kLabelPadding);
  const float from = std::max(x0, ruler.x0);
  const float to = std::min(x1, ruler.x1);
  // Between the edges, or, where that is too narrow, beside them.
  float left = (from + to - width) / 2;
  if (to - from < width + look.Px(4)) left = to + look.Px(4);
  if (left + width > ruler.x1) left = from - width - look.Px(4);
  left = std::max(left, ruler.x0);
  const ui::Box label{left, ruler.y0 + look.Px(2), left + width, ruler.y1 - look.Px(2)};
  list->AddRectFilled({label.x0, label.y0}, {label.x1, label.y1}, look.theme.surface.panel,
                      look.Px(3));
  widgets::DrawTextCentered(look, style, label, text);
  list->PopClipRect();
  log->Int("area", text, time.end_ns - time.start_ns, "ns",
           {std::max(x0, ruler.x0), ruler.y0, std::min(x1, ruler.x1), ruler.y1});
}

void DrawAreaInMinimap(const ui::Context& context, const Axis& run_axis, const ui::Box& minimap) {
  if (!context.area.query) return;
  const Look look = widgets::LookOf(context);
  const float x0 = std::round(run_axis.X(context.area.query->time.start_ns));
  const float x1 = std::max(run_axis.X(context.area.query->time.end_ns), x0 + look.Px(2));
  ImGui::GetWindowDrawList()->AddRectFilled({x0, minimap.y0}, {x1, minimap.y0 + look.Px(2)},
                                            look.theme.state.accent);
}

void DrawAreaInLanes(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log) {
  if (!context.area.query) return;
  timeline::DrawArea(context, frame.axis, frame.box.y0, frame.box.y1);
  const float x0 = std::max(frame.axis.X(context.area.query->time.start_ns), frame.box.x0);
  const float x1 = std::min(frame.axis.X(context.area.query->time.end_ns), frame.box.x1);
  int64_t lit = 0;
  for (const RankBlock& block : frame.layout.ranks) {
    if (Includes(*context.area.query, block.rank)) {
      ++lit;
      continue;
    }
    const float y = frame.origin + block.y;
    if (x0 >= x1) continue;
    ImGui::GetWindowDrawList()->AddRectFilled({x0, y}, {x1, y + block.height},
                                              timeline::DimOfArea(*context.theme));
  }
  log->Int("area_lanes", "", lit, "", {x0, frame.box.y0, x1, frame.box.y1});
}

}  // namespace shardscope::panels
