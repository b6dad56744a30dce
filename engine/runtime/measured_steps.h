// What is measured in the first steps of a training: which of them count, when there are enough,
// and what is taken of their times. Internal to AutoBandwidth and SegmentTimes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardscope::runtime {

class MeasuredSteps {
 public:
  // The first step of a run is slower than the rest (pages, caches): it does not count.
  static constexpr int64_t kWarmUpSteps = 1;
  static constexpr int64_t kMeasuredSteps = 3;

  // One rank's step. False: it does not count.
  bool Add(int64_t step) {
    if (step < kWarmUpSteps) return false;
    ++rank_steps_;
    return true;
  }

  // Whether all of the steps that are needed are there for `num_ranks` ranks.
  bool IsReady(int num_ranks) const { return rank_steps_ >= kMeasuredSteps * num_ranks; }

 private:
  int64_t rank_steps_ = 0;
};

// Lower quartile: whatever else runs on the machine makes times longer, never shorter. 0 for none.
inline int64_t UndisturbedNs(std::vector<int64_t> times_ns) {
  if (times_ns.empty()) return 0;
  const auto quartile = times_ns.begin() + static_cast<std::ptrdiff_t>(times_ns.size() / 4);
  std::nth_element(times_ns.begin(), quartile, times_ns.end());
  return *quartile;
}

}  // namespace shardscope::runtime
