// Flags: where bookmarks are, in the ruler.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Over the ruler in `box`. A flag where one begins, with its note under the mouse; a click goes
// there. Those on the same pixels are one. Logged as "flag:ID".
void DrawFlags(const ui::Context& context, const timeline::Axis& axis, const ui::Box& box,
               ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
