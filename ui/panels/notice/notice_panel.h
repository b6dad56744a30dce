// Notice: one line at the bottom that says what was done, or why it was not; it goes by itself, or
// by a click.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// Over the panels; nothing without a notice.
void DrawNotice(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
