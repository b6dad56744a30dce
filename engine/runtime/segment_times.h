// SegmentTimes: how long the forward of each segment takes, from a few warm-up steps: by that
// checkpointing=budget chooses the blocks whose recomputation costs least.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/runtime/measured_steps.h"
#include "engine/runtime/step_observer.h"

namespace shardscope::runtime {

class SegmentTimes {
 public:
  explicit SegmentTimes(size_t num_segments) : forwards_ns_(num_segments) {}

  // One rank's step.
  void Add(int64_t step, const StepTimes& times);

  bool IsReady(int num_ranks) const { return steps_.IsReady(num_ranks); }

  // By segment, in ns: the lower quartile. Empty if a segment has run on no rank of this process.
  std::vector<double> Costs() const;

 private:
  std::vector<std::vector<int64_t>> forwards_ns_;
  MeasuredSteps steps_;
};

}  // namespace shardscope::runtime
