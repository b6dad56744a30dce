// Which moment of memory is looked at block by block, where none is set: that of the highest peak.
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/analysis/memory/memory.h"
#include "trace/query/live_blocks.h"

namespace shardscope::analysis {

// Of `rank`, or of the one that takes most; nullopt: no such rank, or nothing was recorded of it.
std::optional<query::BlocksQuery> BlocksAtPeak(const std::vector<MemoryPeak>& peaks,
                                               std::optional<int32_t> rank);

}  // namespace shardscope::analysis
