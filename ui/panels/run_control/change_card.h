// The before/after card of the last change: old -> new, relative change, and whether that is more
// than noise.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

// Nothing is drawn while no knob was turned.
void DrawChangeCard(const ui::Context& context, ui::DrawLog* log);

}  // namespace shardscope::panels
