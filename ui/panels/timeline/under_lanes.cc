#include "ui/panels/timeline/under_lanes.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>

#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

constexpr float kUnderHeight = 9;
constexpr float kUnderLineHeight = 18;

}  // namespace

float RoomUnderLanes(const ui::Context& context) {
  return context.plan.is_on || context.compare.under_lanes ? kUnderHeight : 0;
}

timeline::LaneKind LaneThatShows(query::TrackRole role) {
  const timeline::LaneKind kind = timeline::LaneOf(role);
  return kind == timeline::LaneKind::kCopy ? timeline::LaneKind::kAllGather
                                           : kind;  // a strip in it
}

std::optional<ui::Box> BoxUnder(const ui::Context& context, const TimelineOverlay::Frame& frame,
                                const timeline::Lane& lane, timeline::Range time) {
  const float y0 = frame.origin + lane.y + lane.height + context.scale;
  const float y1 = y0 + (kUnderHeight - 2) * context.scale;
  if (y1 < frame.box.y0 || y0 > frame.box.y1) return std::nullopt;
  const float x0 = frame.axis.X(time.start_ns);
  const float x1 = frame.axis.X(time.end_ns);
  if (x1 < frame.box.x0 || x0 > frame.box.x1) return std::nullopt;
  return ui::Box{std::round(x0), y0, std::max(std::round(x1), std::round(x0) + 2), y1};
}

float DrawLineUnderRuler(const ui::Context& context, const timeline::Axis& axis, float top,
                         const LineUnderRuler& line, ui::DrawLog* log) {
  const widgets::Look look = widgets::LookOf(context);
  const float left = ImGui::GetWindowPos().x + look.Px(ui::kPanelPadding);
  log->Text(line.id, line.text,
            widgets::DrawTextClipped(look, widgets::DimOf(look), {left, top + look.Px(3)},
                                     axis.right() - left, line.text));
  return top + look.Px(kUnderLineHeight);
}

}  // namespace shardscope::panels
