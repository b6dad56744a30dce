// RunChecks: what the ranks of a run would do with some keys, the most that they can hold then, and
// whether that can be: of the keys that a run starts with and of every change while it is live.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/executor/trace_sink.h"
#include "engine/footprint/advice.h"
#include "engine/footprint/footprint.h"
#include "engine/plan/schedule.h"
#include "engine/runtime/evaluation_runner.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/run_checkpoints.h"
#include "engine/runtime/schedule_cache.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Every `config` has passed Check(). Errors are for the user, and say what to set instead.
//
// Threads: any, several at once.
class RunChecks {
 public:
  // All are borrowed; there need be no ranks in `ranks` yet.
  RunChecks(Ranks* ranks, const RunCheckpoints& checkpoints, EvaluationRunner* evaluations);

  // What trains with `config`: the same object as long as it is kept. `reads`: schedule.file is
  // read again. Errors are those of BuildSchedule(), and of a schedule.file that cannot be run.
  Result<std::shared_ptr<const plan::Schedule>> ScheduleOf(const config::Config& config,
                                                           bool reads = false);

  // Of a run that starts with `config`. Error: its Schedule or what evaluates cannot be built or
  // does not fit into engine.memory_limit, a fault is of no op, or one of the listed changes cannot
  // be made after those before it.
  Status CheckStart(const config::Config& config);

  // Of a change while ranks train with `before`. Error: as above; the change has no effect; or the
  // ranks' state has no room to move. A schedule.file that is named anew is read and kept.
  Status CheckChange(const config::Config& before, const config::Config& after);

  // Bytes by program: the most that its ranks can hold of their own while they run `schedule`, with
  // a copy of their state for checkpoints or without.
  std::vector<int64_t> BoundsOf(const plan::Schedule& schedule, bool has_copy) const;

  // What the trace has as the expected peaks of the regime's Schedule.
  executor::PredictedPeaks PredictPeaks(const Regime& regime) const;

  // What is said beside the bytes where a rank that trains with `config` comes to the limit.
  std::string ExplainOutOfMemory(const config::Config& config, int64_t wanted_bytes);

 private:
  // Whether engine.memory_limit lets in what ranks can need with `config`.
  Status CheckLimit(const config::Config& config, const plan::Schedule& schedule,
                    const footprint::Question& question);
  // Error: what evaluates cannot be built, or does not fit.
  Status CheckEvaluation(const config::Config& config, const footprint::Question& question);
  Result<footprint::Footprint> FootprintWith(const config::Config& config);
  // Whether the footprint has a checkpoint's copy, as far as that takes memory of the ranks.
  footprint::CheckpointCopy CopyWith(const config::Config& config) const;

  Ranks& ranks_;
  const RunCheckpoints& checkpoints_;
  EvaluationRunner& evaluations_;
  ScheduleCache schedules_;
};

}  // namespace shardscope::runtime
