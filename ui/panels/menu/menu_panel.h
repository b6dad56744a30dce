// The menu of the top bar: language, theme, size, and the way to changes, commands, keys and help.
// Over everything else while it is the Context's overlay.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawMenu(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
