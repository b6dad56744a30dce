// What runs through timeline and memory alike: change markers, the cursor, step boundaries, pauses
// (a quiet band between two steps, and behind the last one since a live run was paused); and the
// small call-outs. UI thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/lane_source.h"
#include "ui/widgets/look.h"

namespace shardscope::timeline {

// The time axis of the current window: from kGutter right of its left edge to kRightMargin left of
// its right edge.
Axis WindowAxis(const ui::Context& context);

void DrawDashedVertical(const widgets::Look& look, float x, float y0, float y1, ui::Color color);
void DrawDashedHorizontal(const widgets::Look& look, float x0, float x1, float y, ui::Color color);

// Dashed lines at every change, from y0 to y1; `label_y` < 0: no labels. Logs them as
// "change:<step>". Returns the boxes of the labels.
std::vector<ui::Box> DrawChanges(const ui::Context& context, const std::vector<Change>& changes,
                                 const Axis& axis, const ui::Box& box, float label_y,
                                 ui::DrawLog* log);

// Dashed lines where the run failed, each with its message one line above `label_y`; < 0: no
// labels. Logs them as "error:<step>".
void DrawErrors(const ui::Context& context, const std::vector<query::Marker>& errors,
                const Axis& axis, const ui::Box& box, float label_y, ui::DrawLog* log);

// The vertical line under the mouse, in every panel on the axis.
void DrawCursor(const ui::Context& context, const Axis& axis, float y0, float y1);

// The stretch of time that is measured, if there is one: its edges, and all outside of it dimmed.
void DrawArea(const ui::Context& context, const Axis& axis, float y0, float y1);
// What dims is drawn with.
ui::Color DimOfArea(const ui::Theme& theme);
// The time lens: a line at its now, and a veil over what lies after it. Nothing while it is off.
void DrawLens(const ui::Context& context, const Axis& axis, float y0, float y1);

// Thin lines at the step boundaries of the first rank that are at least some pixels apart.
void DrawStepLines(const ui::Context& context, const Axis& axis, float y0, float y1);

// A bordered box with one bold and perhaps one dim line, kept inside `bounds`. `at` is its left
// top.
struct Callout {
  std::string title;
  std::string detail;
  ui::Color border = 0;
};
ui::Box DrawCallout(const widgets::Look& look, ImVec2 at, const ui::Box& bounds,
                    const Callout& callout);

struct PauseBox {
  float x0 = 0;
  float x1 = 0;
  query::Pause pause;
  bool is_open = false;  // how long it takes is not known yet: `pause` ends where the view does
};

// Those of a rank in view that are at least `min_width` wide there.
std::vector<PauseBox> PausesInView(const query::Snapshot& snapshot, const query::RankRows& rows,
                                   const Axis& axis, float min_width);

// "paused", "checkpoint" or "change".
const char* PauseName(ui::Language language, query::PauseCause cause);

// Where to draw the pauses of a rank; they are logged as "<name>:<step>".
struct PauseStrip {
  int32_t rank = 0;
  ui::Box box;
  std::string name;
};

// With their names where they fit.
void DrawPauses(const ui::Context& context, const Axis& axis, const PauseStrip& strip,
                ui::DrawLog* log);

// Those of every rank over its lanes; `origin` is the y of the first. Logs them as
// "pause<rank>:<step>".
void DrawPausesOfRanks(const ui::Context& context, const Axis& axis, const Layout& layout,
                       float origin, ui::DrawLog* log);

}  // namespace shardscope::timeline
