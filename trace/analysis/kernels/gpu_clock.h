// Within what the times of a run's GPUs are right against the host's clock. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

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
