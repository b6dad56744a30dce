// The time lens's bar under the ruler: play, speed, position, and what each rank does at its now.
#pragma once

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Below `top`, over the whole width of the window; returns where it ends.
float DrawLensBar(const ui::Context& context, const timeline::Axis& axis, float top,
                  ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
