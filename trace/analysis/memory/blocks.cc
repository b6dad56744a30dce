#include "trace/analysis/memory/blocks.h"

namespace shardscope::analysis {

std::optional<query::BlocksQuery> BlocksAtPeak(const std::vector<MemoryPeak>& peaks,
                                               std::optional<int32_t> rank) {
  const MemoryPeak* highest = nullptr;
  for (const MemoryPeak& peak : peaks) {
    if (peak.peak_bytes == 0 || (rank && peak.rank != *rank)) continue;
    if (highest == nullptr || peak.peak_bytes > highest->peak_bytes) highest = &peak;
  }
  if (highest == nullptr) return std::nullopt;
  return query::BlocksQuery{.rank = highest->rank, .at_ns = highest->peak_time_ns};
}

}  // namespace shardscope::analysis
