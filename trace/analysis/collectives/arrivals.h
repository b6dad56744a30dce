// Who came when to a collective. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/analysis/collectives/collectives.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Arrival {
  int32_t rank = 0;
  query::OpRunId op_run;       // its part
  int64_t after_first_ns = 0;  // that it came later than the first rank
};

// Of the ranks that have come to the collective of which `run` is a part, in order of their
// arrival, equal ones by rank. Ranks are on one clock up to its residual.
std::vector<Arrival> ArrivalsOf(const query::Snapshot& snapshot, const CollectiveRun& run);

}  // namespace shardscope::analysis
