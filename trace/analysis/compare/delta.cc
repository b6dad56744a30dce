#include "trace/analysis/compare/delta.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "trace/base/enum_count.h"

namespace shardscope::analysis {

std::string_view Name(ComparisonVerdict verdict) {
  static constexpr auto kNames =
      std::to_array<std::string_view>({"better", "worse", "within_noise", "not_comparable"});
  static_assert(kNames.size() == kCountOf<ComparisonVerdict>);
  return kNames[static_cast<size_t>(verdict)];
}

ComparisonVerdict VerdictOf(const Delta& time) { return VerdictOfPart(time, time.a_ns); }

ComparisonVerdict VerdictOfPart(const Delta& part, double step_ns) {
  const Shift& shift = part.shift;
  if (!shift.known) return ComparisonVerdict::kNotComparable;
  const bool matters = step_ns > 0 && std::abs(part.ns()) / step_ns >= kLeastDifference;
  if (!matters || !shift.excludes_zero()) return ComparisonVerdict::kWithinNoise;
  return shift.estimate_ns > 0 ? ComparisonVerdict::kWorse : ComparisonVerdict::kBetter;
}

std::vector<int32_t> MiddleSteps(const std::vector<int64_t>& step_ns) {
  std::vector<int32_t> order(step_ns.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&step_ns](int32_t a, int32_t b) {
    return step_ns[static_cast<size_t>(a)] < step_ns[static_cast<size_t>(b)];
  });
  const bool few = order.size() < kLeastNoiseSteps;
  const auto left_out = static_cast<std::ptrdiff_t>(few ? 0 : (order.size() + 3) / 4);
  std::vector<int32_t> middle(order.begin() + left_out, order.end() - left_out);
  std::sort(middle.begin(), middle.end());
  return middle;
}

double MeanOf(const SideTimes& side) {
  double sum = 0;
  for (const int32_t at : side.middle) {
    sum += static_cast<double>(side.sums_ns[static_cast<size_t>(at)]);
  }
  return sum / (static_cast<double>(side.num_ranks) * static_cast<double>(side.middle.size()));
}

std::vector<int64_t> PerRank(const SideTimes& side) {
  std::vector<int64_t> means = side.sums_ns;
  for (int64_t& mean : means) mean /= side.num_ranks;
  return means;
}

Delta DeltaOf(const SideTimes& a, const SideTimes& b) {
  Delta delta{.a_ns = MeanOf(a), .b_ns = MeanOf(b), .shift = ShiftBetween(PerRank(a), PerRank(b))};
  delta.shift.Include(delta.ns());
  return delta;
}

bool DifferInTokens(double a, double b) {
  return a > 0 && b > 0 && std::abs(b - a) >= kLeastDifference * a;
}

Delta TimeOfTokens(const Delta& step, const std::vector<int64_t>& a_ns,
                   const std::vector<int64_t>& b_ns, double ratio) {
  std::vector<int64_t> longer_ns;
  for (const int64_t ns : b_ns) {
    // Tokens of a damaged trace may be anything; ShiftBetween() takes times below 2^62.
    longer_ns.push_back(std::llround(std::min(static_cast<double>(ns) * ratio, 0x1p61)));
  }
  Delta delta{.a_ns = step.a_ns, .b_ns = step.b_ns * ratio, .shift = ShiftBetween(a_ns, longer_ns)};
  delta.shift.Include(delta.ns());
  return delta;
}

}  // namespace shardscope::analysis
