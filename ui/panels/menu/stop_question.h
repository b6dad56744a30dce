// Asks whether the training shall really stop. Over everything else while it is the Context's
// overlay; Escape, Enter and a click elsewhere let it go on.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawStopQuestion(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
