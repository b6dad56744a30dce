// The critical path over the lanes: what is on it outlined where it ran, dashed where something had
// to wait, joined across lanes and ranks by a line; and what its parts add up to.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Nothing while it is off or none is made. Logs each stretch as "path:<rank>:<op_run>".
void DrawCriticalPath(const ui::Context& context, const TimelineOverlay::Frame& frame,
                      ui::DrawLog* log);

// Its sums by kind, from `top` on in as many lines as the width needs; returns where they end. Logs
// each as "path_part:<kind>".
float DrawPathLegend(const ui::Context& context, const timeline::Axis& axis, float top,
                     ui::DrawLog* log);

}  // namespace shardscope::panels
