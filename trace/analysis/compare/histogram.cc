#include "trace/analysis/compare/histogram.h"

#include <algorithm>
#include <limits>

namespace shardscope::analysis {
namespace {

std::vector<int64_t> CountsOf(const std::vector<int64_t>& steps, const StepHistogram& bins,
                              int64_t num_bins) {
  std::vector<int64_t> counts(static_cast<size_t>(num_bins));
  for (const int64_t step_ns : steps)
    ++counts[static_cast<size_t>((step_ns - bins.first_ns) / bins.width_ns)];
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
  histogram.first_ns = least_ns;
  histogram.width_ns = (most_ns - least_ns) / kMostBins + 1;  // the longest is inside the last
  const int64_t num_bins = (most_ns - least_ns) / histogram.width_ns + 1;
  histogram.a = CountsOf(a, histogram, num_bins);
  histogram.b = CountsOf(b, histogram, num_bins);
  return histogram;
}

}  // namespace shardscope::analysis
