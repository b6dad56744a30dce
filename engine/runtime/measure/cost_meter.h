// CostMeter: how long the steps of record.measure_overhead took, for table overhead_step.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/config/recording/cost_steps.h"
#include "trace/record/recorder.h"

namespace shardscope::runtime {

// Threads: each rank's calls on its own host thread.
class CostMeter {
 public:
  CostMeter(const config::CostSteps& steps, int num_ranks)
      : steps_(steps), begun_(static_cast<size_t>(num_ranks)) {}

  const config::CostSteps& steps() const { return steps_; }

  // All ranks have begun `step`, and recording is as it will be in it. `regime` counts what is in
  // force.
  struct Moment {
    int64_t step = 0;
    int64_t regime = 0;
    int64_t time_ns = 0;
  };
  void Begin(int rank, const Moment& begin, bool is_recorded);

  // The step after it begins: its row, if it is one of those to be timed. None where something
  // else came between, such as a pause, or where it was recorded differently than planned.
  std::optional<schema::OverheadStepRow> End(int rank, const Moment& end);

 private:
  struct Begun {
    Moment at;
    bool is_timed = false;
  };

  const config::CostSteps steps_;
  std::vector<Begun> begun_;  // by rank
};

}  // namespace shardscope::runtime
