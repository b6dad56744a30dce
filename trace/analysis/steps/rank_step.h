// RankStep: the stalls and collectives of one rank's step, where a single op is asked for: of
// hundreds of ranks all of them would take longer than a frame.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/steps/stalls.h"

namespace shardscope::analysis {

// What Stalls() and Collectives() give of this rank and step.
struct RankStep {
  std::vector<Stall> stalls;
  std::vector<CollectiveRun> collectives;
};
RankStep RankStepOf(const query::Snapshot& snapshot, int32_t rank, int32_t step);
std::vector<CollectiveRun> CollectivesOfRank(const query::Snapshot& snapshot, int32_t rank,
                                             int32_t step);

}  // namespace shardscope::analysis
