// Sums that a damaged file cannot overflow: it may claim steps of years and petabytes, each of them
// sane. Internal to analysis.
#pragma once

#include <cstdint>
#include <limits>

namespace shardscope::analysis {

// Both at least 0.
inline void AddCapped(int64_t value, int64_t* sum) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  *sum = value > kMost - *sum ? kMost : *sum + value;
}

}  // namespace shardscope::analysis
