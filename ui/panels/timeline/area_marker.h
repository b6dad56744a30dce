// The stretch of time that is measured: marked and moved by the mouse, and drawn over ruler and
// lanes. Its edges are two cursors.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/draw/axis_input.h"

namespace shardscope::panels {

class AreaMarker {
 public:
  // Makes the ruler an item: a drag marks a stretch of time, or moves an edge; a double click marks
  // a step; a click elsewhere takes the mark away.
  void HandleRuler(const ui::Context& context, const timeline::Axis& axis, const ui::Box& ruler,
                   ui::Commands* commands);

 private:
  int64_t fixed_ns_ = 0;  // the edge that stays while the other is dragged
  std::vector<int32_t> ranks_;
  bool moves_ = false;  // it is no click
  bool hovers_ = false;
};

// Where Shift-drag goes over the lanes: that time, of the ranks that it passes. `origin`: y on
// screen of Layout's 0.
void MarkLanes(const ui::Context& context, const timeline::Layout& layout, float origin,
               const timeline::AxisInput::Marking& marking, ui::Commands* commands);

// In the ruler: both edges, and the time between them.
void DrawAreaInRuler(const ui::Context& context, const timeline::Axis& axis, const ui::Box& ruler,
                     ui::DrawLog* log);

// Where in the run it is.
void DrawAreaInMinimap(const ui::Context& context, const timeline::Axis& run_axis,
                       const ui::Box& minimap);

// In the lanes: all that is not measured is dimmed, other ranks too.
void DrawAreaInLanes(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log);

}  // namespace shardscope::panels
