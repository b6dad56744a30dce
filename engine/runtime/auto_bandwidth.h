// AutoBandwidth: finds the rate at which a block's all-gather takes a wanted share of its forward
// (link.bandwidth=auto:<share>), from the forwards of a few warm-up steps.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/plan/schedule.h"
#include "engine/runtime/step_observer.h"

namespace shardscope::runtime {

class AutoBandwidth {
 public:
  // The first step of a run is slower than the rest (pages, caches): it does not count.
  static constexpr int64_t kWarmUpSteps = 1;
  static constexpr int64_t kMeasuredSteps = 3;

  struct Link {
    double share = 0;  // of the forward that the all-gather shall take
    int64_t latency_ns = 0;
  };
  AutoBandwidth(const plan::Schedule& schedule, Link link);

  // One rank's step.
  void Add(int64_t step, const StepTimes& times);

  // Whether all of the steps that it needs are there for `num_ranks` ranks.
  bool IsReady(int num_ranks) const;

  // Bytes per second; nullopt if the ranks send nothing (one rank, no_shard) or if latency alone
  // takes the wanted share.
  std::optional<double> BytesPerSecond() const;

  // Lower quartile of the blocks' forwards: whatever else runs on the machine makes forwards
  // longer, never shorter.
  int64_t forward_ns() const;

 private:
  Link link_;
  std::vector<bool> is_block_;  // by unit
  int64_t wire_bytes_ = 0;      // of a block's all-gather
  std::vector<int64_t> forwards_ns_;
  int64_t rank_steps_ = 0;
};

}  // namespace shardscope::runtime
