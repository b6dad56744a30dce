// How a stretch of time of one rank divides: compute, exposed communication, exposed copies, idle.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/base/interval.h"

namespace shardscope::analysis {

// When a rank computed, communicated and copied; all unions.
struct BusyTimes {
  std::vector<Interval> compute;
  std::vector<Interval> communication;
  std::vector<Interval> copy;
};

// compute + exposed + exposed_copy + idle == the length, always.
struct TimeSplit {
  int64_t compute_ns = 0;        // |C|
  int64_t communication_ns = 0;  // |M|
  int64_t copy_ns = 0;           // |K|
  int64_t overlap_ns = 0;        // |C and M|
  int64_t exposed_ns = 0;        // |M| - overlap
  int64_t exposed_copy_ns = 0;   // |K outside C and M|
  int64_t idle_ns = 0;           // the rest
};

std::vector<Interval> UnionOf(std::vector<Interval> a, const std::vector<Interval>& b);

// Union of all three.
std::vector<Interval> AllBusy(const BusyTimes& times);

// `times` lie in a stretch of `length_ns`; `busy` is AllBusy() of them.
TimeSplit SplitTime(const BusyTimes& times, const std::vector<Interval>& busy, int64_t length_ns);

}  // namespace shardscope::analysis
