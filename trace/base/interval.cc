#include "trace/base/interval.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace shardscope {

std::vector<Interval> Union(std::vector<Interval> intervals) {
  std::erase_if(intervals, [](const Interval& i) { return i.end_ns <= i.start_ns; });
  const auto by_start = [](const Interval& a, const Interval& b) {
    return a.start_ns < b.start_ns;
  };
  // What one stream did comes in order.
  if (!std::is_sorted(intervals.begin(), intervals.end(), by_start)) {
    std::sort(intervals.begin(), intervals.end(), by_start);
  }
  size_t kept = 0;
  for (const Interval& interval : intervals) {
    if (kept > 0 && interval.start_ns <= intervals[kept - 1].end_ns) {
      intervals[kept - 1].end_ns = std::max(intervals[kept - 1].end_ns, interval.end_ns);
    } else {
      intervals[kept++] = interval;
    }
  }
  intervals.resize(kept);
  return intervals;
}

std::vector<Interval> Intersect(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t start_ns = std::max(a[i].start_ns, b[j].start_ns);
    const int64_t end_ns = std::min(a[i].end_ns, b[j].end_ns);
    if (start_ns < end_ns) result.push_back({start_ns, end_ns});
    if (a[i].end_ns < b[j].end_ns) {
      ++i;
    } else {
      ++j;
    }
  }
  return result;
}

std::vector<Interval> Subtract(const std::vector<Interval>& a, const std::vector<Interval>& b) {
  std::vector<Interval> result;
  ForEachOutside(a, b, std::identity(),
                 [&result](const Interval&, Interval part) { result.push_back(part); });
  return result;
}

int64_t TotalNs(const std::vector<Interval>& intervals) {
  int64_t total_ns = 0;
  for (const Interval& interval : intervals) total_ns += interval.end_ns - interval.start_ns;
  return total_ns;
}

}  // namespace shardscope
