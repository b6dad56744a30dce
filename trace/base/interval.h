// Sets of half-open intervals of time.
#pragma once

#include <cstdint>
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

}  // namespace shardscope
