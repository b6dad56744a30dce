// How far one set of times lies from another, and within what. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

namespace shardscope::analysis {

// Fewer values on a side say nothing of noise.
inline constexpr int kLeastNoiseSteps = 3;

// What has to be added to the times of A to get those of B.
struct Shift {
  bool known = false;  // both sides have kLeastNoiseSteps values or more; else all is 0
  int64_t estimate_ns = 0;
  int64_t low_ns = 0;
  int64_t high_ns = 0;
  double confidence = 0;  // that the shift lies within: 0.95 or more, or as much as so few can give

  // The interval reaches to a difference by another estimate that is shown with it, which lies
  // outside where the steps differ in more than a shift. Wider, it is no less sure.
  void Include(double difference_ns);

  bool excludes_zero() const { return known && (low_ns > 0 || high_ns < 0); }
};

// The estimate of Hodges and Lehmann, which is the median of all differences of a value of B and
// one of A, and the interval of Moses between two of those differences, which are as far from the
// ends as the test of Mann and Whitney allows (Hollander and Wolfe, Nonparametric Statistical
// Methods, 4.2 and 4.3: exact for few values, by the normal approximation for many). No value is
// drawn at random, and one far from the others moves nothing. It takes steps for independent of one
// another, and takes no account of what differs from one start of a program to the next.
// Values in [0, 2^62).
Shift ShiftBetween(std::vector<int64_t> a, std::vector<int64_t> b);

}  // namespace shardscope::analysis
