// What the plan and the run that is compared with have in common: ops in the room under each lane,
// and a line under the ruler that says what they are.
#pragma once

#include <optional>
#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// At scale 1; 0: nothing is shown there.
float RoomUnderLanes(const ui::Context& context);

// The room under a lane of ops.
class UnderLane {
 public:
  UnderLane(const ui::Context& context, const TimelineOverlay::Frame& frame,
            const timeline::Lane& lane);

  bool is_in_sight() const { return y1_ >= frame_.box.y0 && y0_ <= frame_.box.y1; }
  // Of an op in it, in whole pixels; none: it is out of sight.
  std::optional<ui::Box> BoxOf(timeline::Range time) const;

 private:
  const TimelineOverlay::Frame& frame_;
  float y0_;
  float y1_;
};

struct LineUnderRuler {
  const char* id;  // in the log of what was drawn
  const std::string& text;
};
// Below `top`, over the width of the window; returns where it ends.
float DrawLineUnderRuler(const ui::Context& context, const timeline::Axis& axis, float top,
                         const LineUnderRuler& line, ui::DrawLog* log);

}  // namespace shardscope::panels
