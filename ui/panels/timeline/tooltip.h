// The tooltip of the timeline: name, duration and the one fact that matters.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/timeline/lane.h"
#include "ui/timeline/run_index.h"

namespace shardscope::panels {

struct TooltipText {
  std::string title;  // empty: no tooltip
  std::string detail;
  bool warns = false;  // a stall or exposed communication
};
TooltipText TooltipOf(const ui::Context& context, const timeline::RunIndex& index,
                      const timeline::Hit& hit);

// Of the pause of `rank` at `x`, if there is one.
TooltipText TooltipOfPause(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                           float x);

}  // namespace shardscope::panels
