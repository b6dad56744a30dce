// The peak of the rank that takes the most memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "trace/analysis/memory/memory.h"

namespace shardscope::analysis {

// 0 without ranks.
inline int64_t LargestPeakBytes(const std::vector<MemoryPeak>& peaks) {
  int64_t largest = 0;
  for (const MemoryPeak& rank : peaks) largest = std::max(largest, rank.peak_bytes);
  return largest;
}

}  // namespace shardscope::analysis
