// What the Schedules in view were predicted to take, as dashed lines over a rank's memory.
#pragma once

#include <cstdint>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Where a rank's memory is drawn: from 0 at the bottom to `max_bytes` at the top.
struct MemoryPlot {
  int32_t rank = 0;
  ui::Box box;
  int64_t max_bytes = 1;
};

// Of all Schedules of the run.
int64_t LargestPrediction(const query::Snapshot& snapshot);

// Two lines a Schedule: its peak in issue order, and the bound of its executed peak.
void DrawPredictions(const ui::Context& context, const timeline::Axis& axis, const MemoryPlot& plot,
                     ui::DrawLog* log);

}  // namespace shardscope::panels
