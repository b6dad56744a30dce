// The help: what the app shows and where.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

void DrawHelp(const widgets::Look& look, const ui::Context& context, ui::DrawLog* log);

}  // namespace shardscope::panels
