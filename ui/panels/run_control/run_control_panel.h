// Run control: every live knob with its value in force and the pending one, the step at which it
// applies, and what the last change did.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawRunControl(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
