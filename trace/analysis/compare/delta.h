// A time of two sets of steps, and whether it differs beyond noise: the one judgement for two runs
// and for the steps before and after a change. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/analysis/compare/shift.h"

namespace shardscope::analysis {

enum class ComparisonVerdict : uint8_t { kBetter, kWorse, kWithinNoise, kNotComparable };
// Of B: "better", "worse", "within_noise", "not_comparable".
std::string_view Name(ComparisonVerdict verdict);

// A time of both sides: mean over the middle steps and ranks, in ns a step.
struct Delta {
  double a_ns = 0;
  double b_ns = 0;
  Shift shift;  // of all steps, each the mean over its ranks; its interval includes ns()

  double ns() const { return b_ns - a_ns; }
  // By which B is slower, as a share of A; negative: faster.
  double slower() const { return a_ns > 0 ? ns() / a_ns : 0; }
};

// Differences below this share of the step are none, however sure.
inline constexpr double kLeastDifference = 0.005;
// Of B, by a time of both sides.
ComparisonVerdict VerdictOf(const Delta& time);
// The same of a part of steps that take `step_ns` in A.
ComparisonVerdict VerdictOfPart(const Delta& part, double step_ns);

// The steps that figures are of, as indices into `step_ns`: without the quarter of fastest and the
// quarter of slowest, so that a single step moves little; all of them where there are fewer than
// kLeastNoiseSteps. Of six or fewer these are the one or two whose mean is the median.
std::vector<int32_t> MiddleSteps(const std::vector<int64_t>& step_ns);

// A time of the steps of one side. Borrows.
struct SideTimes {
  const std::vector<int64_t>& sums_ns;  // of each step, summed over ranks
  const std::vector<int32_t>& middle;   // as MiddleSteps() has them of the steps' times
  int num_ranks = 0;
};

// Over the middle steps, a rank and a step.
double MeanOf(const SideTimes& side);
// Of each step, the mean over its ranks.
std::vector<int64_t> PerRank(const SideTimes& side);
// Both sides have steps.
Delta DeltaOf(const SideTimes& a, const SideTimes& b);

// Whether steps of so many tokens are other ones. Not where a number is not known (0).
bool DifferInTokens(double a, double b);
// `step`, the time of steps that each took so long (PerRank()), where those of B last `ratio` times
// as long: as they would with as many tokens as those of A.
Delta TimeOfTokens(const Delta& step, const std::vector<int64_t>& a_ns,
                   const std::vector<int64_t>& b_ns, double ratio);

}  // namespace shardscope::analysis
