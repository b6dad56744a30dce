// What recording costs (record.measure_overhead, table overhead_step): by which steps a run
// measures it, and how long these took.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/config/config.h"
#include "trace/base/status.h"
#include "trace/record/recorder.h"

namespace shardscope::runtime {

// The steps by which a run measures what recording costs. In rounds of four, so that a machine that
// slowly gets faster or slower meets both sides alike:
//
//   step        b          b + 1          b + 2      b + 3
//   recorded    yes        no             yes        yes
//   measured    with       without        -          with
//
// The step after the one that is not recorded is not measured: recording is warming up again.
class OverheadSteps {
 public:
  enum class Role : uint8_t { kNone, kWith, kWithout };
  struct Place {
    Role role = Role::kNone;
    int64_t round = 0;
  };

  // `config` passed Check(), and its run.device is settled.
  explicit OverheadSteps(const config::Config& config);

  Place Of(int64_t step) const;
  bool IsUnrecorded(int64_t step) const { return Of(step).role == Role::kWithout; }

 private:
  int64_t first_ = 0;
  int64_t stride_ = 1;
  int64_t num_rounds_ = 0;
};

// Error: more rounds are asked for than the recorded steps have room for.
Status CheckOverheadSteps(const config::Config& config);

// How long these steps took. Threads: each rank's calls on its own host thread.
class OverheadMeter {
 public:
  OverheadMeter(const OverheadSteps& steps, int num_ranks)
      : steps_(steps), begun_(static_cast<size_t>(num_ranks)) {}

  const OverheadSteps& steps() const { return steps_; }

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

  const OverheadSteps steps_;
  std::vector<Begun> begun_;  // by rank
};

}  // namespace shardscope::runtime
