// A point a collective: its size to the right, its bus bandwidth upwards, both logarithmic.
#pragma once

#include "trace/analysis/collectives/collective_table.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// Each kind has a colour and a shape. A click on a point selects the call of the rank that came
// last. UI thread.
void DrawCollectiveScatter(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                           ui::Commands* commands);

}  // namespace shardscope::panels
