// Layout: where the lanes of every rank stand. First of a lane's three functions; no ImGui.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "ui/timeline/lane_source.h"

namespace shardscope::timeline {

struct Lane {
  LaneSource source;
  int32_t rank = 0;
  float y = 0;  // of its top, from the top of the first rank
  float height = 0;
};

struct RankBlock {
  int32_t rank = 0;
  bool folded = false;
  float y = 0;
  float height = 0;
  size_t first_lane = 0;
  size_t num_lanes = 0;
};

struct Layout {
  std::vector<RankBlock> ranks;
  std::vector<Lane> lanes;  // ascending y
  float height = 0;
};

Layout MakeLayout(const std::vector<RankLanes>& ranks, const std::set<int32_t>& folded,
                  float scale);

// Indices [first, second) of the lanes that touch [top, bottom).
std::pair<size_t, size_t> VisibleLanes(const Layout& layout, float top, float bottom);

// The scroll offset that keeps the rank block under `mouse_y` (from the top of the window of lanes)
// where it is when `before` becomes `after`.
float AnchoredScroll(const Layout& before, const Layout& after, float scroll, float mouse_y);

}  // namespace shardscope::timeline
