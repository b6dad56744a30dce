// For tests of lanes: those of all ranks of a run.
#pragma once

#include <vector>

#include "ui/timeline/lane_source.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {

inline std::vector<RankLanes> LanesOfRanks(const RunIndex& index) {
  std::vector<RankLanes> lanes;
  lanes.reserve(index.ranks().size());
  for (const RankIndex& rank : index.ranks()) lanes.push_back(LanesOf(rank));
  return lanes;
}

}  // namespace shardscope::timeline
