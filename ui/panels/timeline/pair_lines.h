// Lines from what a stage sends to where it is received.
#pragma once

#include "ui/panels/timeline/overlay.h"

namespace shardscope::panels {

// Of all sends in view, unless they are too many to tell apart. Below the overlay.
void DrawPairLines(const ui::Context& context, const TimelineOverlay::Frame& frame,
                   ui::DrawLog* log);

}  // namespace shardscope::panels
