// How long the steps of two sides took, in bins that both share. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace shardscope::analysis {

struct StepHistogram {
  // Where each bin begins, and behind the last where that one ends; empty: there is none.
  std::vector<int64_t> bounds_ns;
  bool is_logarithmic = false;  // each bin is the same number of times as long as the one before it
  std::vector<int64_t> a;       // steps in each bin
  std::vector<int64_t> b;       // likewise, as many
};

inline constexpr int kMostBins = 24;
// From there on bins are logarithmic: in equal ones all that is short would be in the first.
inline constexpr int kLogarithmicFrom = 10;  // times the shortest step, the longest

// From the shortest to the longest of all steps: kMostBins, or fewer where that is less than a
// nanosecond each. Times in [0, 2^62).
StepHistogram HistogramOf(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

}  // namespace shardscope::analysis
