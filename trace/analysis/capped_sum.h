// Sums that a damaged file cannot overflow: it may claim steps of years and petabytes, each of them
// sane. Internal to analysis.
#pragma once

#include <cstdint>
#include <limits>

namespace shardscope::analysis {

// What would be too large is the largest number there is. Numbers below 0, which only such a file
// has, may be added too.
inline void AddCapped(int64_t value, int64_t* sum) {
  if (__builtin_add_overflow(*sum, value, sum)) *sum = std::numeric_limits<int64_t>::max();
}

}  // namespace shardscope::analysis
