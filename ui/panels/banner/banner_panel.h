// Banner: one line over the panels with what is imported and how long that still takes, or that the
// run's folder is gone or holds another one, with the remedy; or with the reason why the run
// failed, or that its file could not be finished; a click on that goes to the moment, the cross
// puts it away. Else, of a run that does not fit into memory, which of its steps are loaded, with
// buttons to those beside them.
#pragma once

#include "ui/commands.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// In pixels; 0: there is none.
float BannerHeight(const ui::Context& context);

// Fills `box`.
void DrawBanner(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                ui::Commands* commands);

}  // namespace shardscope::panels
