// Trace health: what the sources of the trace could and could not see, what they lost, what
// the GPU's rows say of themselves, and what recording costs.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

// Fills the current child window.
void DrawHealth(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log);

}  // namespace shardscope::panels
