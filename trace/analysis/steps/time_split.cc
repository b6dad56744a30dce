#include "trace/analysis/steps/time_split.h"

#include <utility>

#include "trace/base/check.h"

namespace shardscope::analysis {

std::vector<Interval> UnionOf(std::vector<Interval> a, const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return Union(std::move(a));
}

std::vector<Interval> AllBusy(const BusyTimes& times) {
  return UnionOf(UnionOf(times.compute, times.communication), times.copy);
}

TimeSplit SplitTime(const BusyTimes& times, const std::vector<Interval>& busy, int64_t length_ns) {
  TimeSplit split;
  split.compute_ns = TotalNs(times.compute);
  split.communication_ns = TotalNs(times.communication);
  split.copy_ns = TotalNs(times.copy);
  split.overlap_ns = TotalNs(Intersect(times.compute, times.communication));
  split.exposed_ns = split.communication_ns - split.overlap_ns;
  split.exposed_copy_ns =
      TotalNs(Subtract(Subtract(times.copy, times.compute), times.communication));
  split.idle_ns = length_ns - TotalNs(busy);
  // Overlap by intersection, idle by union: the identity ties the two together.
  SHARDSCOPE_CHECK(split.compute_ns + split.exposed_ns + split.exposed_copy_ns + split.idle_ns ==
                   length_ns);
  return split;
}

}  // namespace shardscope::analysis
