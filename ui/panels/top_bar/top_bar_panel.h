// Top bar: name and state of the run, the six numbers that matter, what is true of them, and pause,
// step, stop.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// Fills the current window, which is ui::kTopBarHeight high. Every number has a fixed place.
void DrawTopBar(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
