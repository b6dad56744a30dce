// The plan beside what was: what each stream would have done, outlined under its lane, the ops that
// ran in another order framed in it, and a sentence on how far they differ.
#pragma once

#include <string>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/planned_step.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// In all steps in view that ran the Schedule of `context.plan`, unless they are too many to tell
// apart. Nothing while it is off or there is none.
void DrawPlanLanes(const ui::Context& context, const TimelineOverlay::Frame& frame,
                   ui::DrawLog* log);

// "step 5: planned 41.2 ms, took 45.6 ms, 4.4 ms longer. All ops ran in the planned order."
std::string PlanSentence(ui::Language language, const ui::PlanBesideActual& plan);

// Below `top`, over the width of the window; returns where it ends.
float DrawPlanSentence(const ui::Context& context, const timeline::Axis& axis, float top,
                       ui::DrawLog* log);

}  // namespace shardscope::panels
