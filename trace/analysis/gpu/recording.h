// What recording costs, as the run itself measured it (record.measure_overhead). Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Overhead {
  int rounds = 0;  // comparisons; 0: nothing was measured
  // Time of a recorded step over that of one that was not: median, lowest and highest of all
  // rounds.
  double ratio = 0;
  double lowest = 0;
  double highest = 0;
  int64_t recorded_ns = 0;  // time of a step, median over the rounds
  int64_t unrecorded_ns = 0;
  std::vector<int32_t> left_out;  // steps of which nothing else is in the trace, ascending
};

// The same figures as view v_overhead. A step takes as long as its slowest rank.
Overhead MeasureOverhead(const query::Snapshot& snapshot);

// One sentence, for reports and the app's trace health; empty if nothing was measured.
std::string Describe(const Overhead& overhead);

// The section of a report; empty if nothing was measured.
std::string PrintOverhead(const Overhead& overhead);

// Of one GPU over the whole run: what has to be added to its times lies between low and high.
struct GpuClockBounds {
  int32_t rank = 0;
  int64_t device = 0;
  std::string method;  // "cupti"
  int64_t low_ns = 0;
  int64_t high_ns = 0;
  int64_t readings = 0;  // about one a second

  // Its times are right within this, if the offset is one throughout.
  int64_t uncertainty_ns() const;
  // low > high: no one offset makes all times possible, the clocks drift against each other.
  bool drifts() const { return low_ns > high_ns; }
};

// One a rank, device and method, in that order.
std::vector<GpuClockBounds> BoundGpuClocks(const query::Snapshot& snapshot);

// One sentence, for reports and the app's trace health.
std::string Describe(const GpuClockBounds& bounds);

// The section of a report; empty if nothing is known.
std::string PrintGpuClocks(const std::vector<GpuClockBounds>& clocks);

}  // namespace shardscope::analysis
