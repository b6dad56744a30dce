// Minimap: the whole run in one strip, a bar a step (or a few): height = step time, its exposed
// share on top. Logic only; no ImGui.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/analysis/report/report.h"
#include "ui/timeline/axis.h"

namespace shardscope::timeline {

struct MinimapBar {
  float x0 = 0;
  float x1 = 0;
  float height = 0;   // of the step, share of the tallest
  float exposed = 0;  // of that height, share of the tallest
  int32_t first_step = 0;
  int32_t last_step = 0;
};

// Bars of `rank`'s steps, those narrower than 3 pixels joined by their mean. `axis` covers the run.
std::vector<MinimapBar> MakeMinimap(const std::vector<analysis::StepBreakdown>& steps, int32_t rank,
                                    const Axis& axis);

// What the view becomes when the mouse, at `x`, drags the window by `grabbed_ns` of it.
Range DragMinimap(const Axis& axis, Range view, float x, int64_t grabbed_ns);

}  // namespace shardscope::timeline
