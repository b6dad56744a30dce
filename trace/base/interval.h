// Sets of half-open intervals of time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace shardscope {

struct Interval {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  bool operator==(const Interval&) const = default;
};

// Sorted, touching intervals joined, empty ones dropped.
std::vector<Interval> Union(std::vector<Interval> intervals);
std::vector<Interval> Intersect(const std::vector<Interval>& a,
                                const std::vector<Interval>& b);  // of two unions
std::vector<Interval> Subtract(const std::vector<Interval>& a,
                               const std::vector<Interval>& b);  // of two unions: a without b
int64_t TotalNs(const std::vector<Interval>& intervals);

// Calls take(item, part) for each part of an item that lies outside of `taken`, a union, in order.
// `items`: sorted and disjoint. `time_of`: an item's interval, as a function or a member.
template <typename Item, typename TimeOf, typename Take>
void ForEachOutside(const std::vector<Item>& items, const std::vector<Interval>& taken,
                    const TimeOf& time_of, const Take& take) {
  size_t next = 0;
  for (const Item& item : items) {
    const Interval time = std::invoke(time_of, item);
    int64_t start_ns = time.start_ns;
    while (next < taken.size() && taken[next].end_ns <= start_ns) ++next;
    for (size_t at = next; at < taken.size() && taken[at].start_ns < time.end_ns; ++at) {
      if (start_ns < taken[at].start_ns) take(item, Interval{start_ns, taken[at].start_ns});
      start_ns = std::max(start_ns, taken[at].end_ns);
    }
    if (start_ns < time.end_ns) take(item, Interval{start_ns, time.end_ns});
  }
}

}  // namespace shardscope
