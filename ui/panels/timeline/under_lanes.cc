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

UnderLane::UnderLane(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     const timeline::Lane& lane)
    : frame_(frame),
      y0_(frame.origin + lane.y + lane.height + context.scale),
      y1_(y0_ + (kUnderHeight - 2) * context.scale) {}

std::optional<ui::Box> UnderLane::BoxOf(timeline::Range time) const {
  const float x0 = frame_.axis.X(time.start_ns);
  const float x1 = frame_.axis.X(time.end_ns);
  if (x1 < frame_.box.x0 || x0 > frame_.box.x1) return std::nullopt;
  return ui::Box{std::round(x0), y0_, std::max(std::round(x1), std::round(x0) + 2), y1_};
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
