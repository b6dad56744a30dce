#include "trace/analysis/compare/histogram.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace shardscope::analysis {
namespace {

// The longest is inside the last bin.
std::vector<int64_t> EqualBounds(int64_t least_ns, int64_t most_ns) {
  const int64_t width_ns = (most_ns - least_ns) / kMostBins + 1;
  const int64_t num_bins = (most_ns - least_ns) / width_ns + 1;
  std::vector<int64_t> bounds;
  for (int64_t bin = 0; bin <= num_bins; ++bin) bounds.push_back(least_ns + bin * width_ns);
  return bounds;
}

std::vector<int64_t> LogarithmicBounds(int64_t least_ns, int64_t most_ns) {
  const double times = static_cast<double>(most_ns) / static_cast<double>(least_ns);
  std::vector<int64_t> bounds = {least_ns};
  for (int bin = 1; bin < kMostBins; ++bin) {
    const double share = static_cast<double>(bin) / kMostBins;
    const int64_t bound_ns = std::llround(static_cast<double>(least_ns) * std::pow(times, share));
    if (bound_ns > bounds.back() && bound_ns <= most_ns) bounds.push_back(bound_ns);
  }
  bounds.push_back(most_ns + 1);
  return bounds;
}

std::vector<int64_t> CountsOf(const std::vector<int64_t>& steps,
                              const std::vector<int64_t>& bounds) {
  std::vector<int64_t> counts(bounds.size() - 1);
  for (const int64_t step_ns : steps) {
    const auto above = std::upper_bound(bounds.begin(), bounds.end(), step_ns);
    ++counts[static_cast<size_t>(above - bounds.begin()) - 1];
  }
  return counts;
}

}  // namespace

StepHistogram HistogramOf(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  StepHistogram histogram;
  if (a.empty() && b.empty()) return histogram;
  int64_t least_ns = std::numeric_limits<int64_t>::max();
  int64_t most_ns = 0;
  for (const auto* side : {&a, &b}) {
    for (const int64_t step_ns : *side) {
      least_ns = std::min(least_ns, step_ns);
      most_ns = std::max(most_ns, step_ns);
    }
  }
  histogram.is_logarithmic = least_ns > 0 && most_ns / least_ns >= kLogarithmicFrom;
  histogram.bounds_ns = histogram.is_logarithmic ? LogarithmicBounds(least_ns, most_ns)
                                                 : EqualBounds(least_ns, most_ns);
  histogram.a = CountsOf(a, histogram.bounds_ns);
  histogram.b = CountsOf(b, histogram.bounds_ns);
  return histogram;
}

}  // namespace shardscope::analysis
