// The run that is compared with, B, under the lanes of the open one: what each stream did in the
// step beside the one in focus, and a sentence on both.
#pragma once

#include <string>

#include "ui/beside_step.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Nothing while it is off or there is none.
void DrawBesideLanes(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log);

std::string BesideSentence(const ui::Context& context);

// Below `top`, over the width of the window; returns where it ends.
float DrawBesideSentence(const ui::Context& context, const timeline::Axis& axis, float top,
                         ui::DrawLog* log);

}  // namespace shardscope::panels
