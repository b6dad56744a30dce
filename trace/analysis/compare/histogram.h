// How long the steps of two sides took, in bins that both share. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace shardscope::analysis {

struct StepHistogram {
  int64_t first_ns = 0;    // where the first bin begins
  int64_t width_ns = 0;    // of a bin; 0: there is none
  std::vector<int64_t> a;  // steps in each bin
  std::vector<int64_t> b;  // likewise, as many
};

inline constexpr int kMostBins = 24;

// From the shortest to the longest of all steps, in equal bins: kMostBins, or fewer where that is
// less than a nanosecond each. Times in [0, 2^62).
StepHistogram HistogramOf(const std::vector<int64_t>& a, const std::vector<int64_t>& b);

}  // namespace shardscope::analysis
