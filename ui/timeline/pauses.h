// Pauses on the time axis: what lies between two steps of a rank, and what has lain behind the last
// one since a live run was paused. No ImGui.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/timeline/axis.h"

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

}  // namespace shardscope::timeline
