// Log and trace health: what was dropped, what each source could record, how far the picture lags
// behind, and what was said.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

void DrawLogPanel(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
