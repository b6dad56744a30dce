// Draws pauses: a quiet band between two steps, with its name. UI thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/lane_layout.h"

namespace shardscope::timeline {

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
