// Runs: open a run, one of the recent or live ones, or start a new one from a form with every key.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawRuns(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
