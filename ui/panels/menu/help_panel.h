// What the window shows, in a few sentences, and where more is written. Over everything else while
// it is the Context's overlay.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawHelp(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
