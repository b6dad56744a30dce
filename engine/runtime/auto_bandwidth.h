// AutoBandwidth: finds the rate at which a block's all-gather takes a wanted share of its forward
// (link.bandwidth=auto:<share>), from the forwards of a few warm-up steps.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/plan/schedule.h"
#include "engine/runtime/measured_steps.h"
#include "engine/runtime/step_observer.h"

namespace shardscope::runtime {

class AutoBandwidth {
 public:
  struct Link {
    double share = 0;  // of the forward that the all-gather shall take
    int64_t latency_ns = 0;
  };
  AutoBandwidth(const plan::Schedule& schedule, Link link);

  // One rank's step.
  void Add(int64_t step, const StepTimes& times);

  // Whether all of the steps that it needs are there for `num_ranks` ranks.
  bool IsReady(int num_ranks) const { return steps_.IsReady(num_ranks); }

  // Bytes per second; nullopt if the ranks send nothing (one rank, no_shard) or if latency alone
  // takes the wanted share.
  std::optional<double> BytesPerSecond() const;

  // Lower quartile of the blocks' forwards.
  int64_t forward_ns() const { return UndisturbedNs(forwards_ns_); }

 private:
  Link link_;
  std::vector<bool> is_block_;  // by unit
  int64_t wire_bytes_ = 0;      // of a block's all-gather
  std::vector<int64_t> forwards_ns_;
  MeasuredSteps steps_;
};

}  // namespace shardscope::runtime
