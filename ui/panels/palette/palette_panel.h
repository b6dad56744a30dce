// The command palette: every command by name, with its key, over everything else while
// Context::show_palette.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawPalette(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
