// What Details shows of a marked stretch of time: how the time of each rank divides, why it was
// idle, what took how long.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// At the cursor, which it moves below. Figures are those of Context::area.measured, of the borders
// that it was measured for: while they are dragged, of the ones before.
void DrawAreaDetails(const ui::Context& context, ui::DrawLog* log);

}  // namespace shardscope::panels
