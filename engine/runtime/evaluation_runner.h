// EvaluationRunner: forwards over held-out data between two steps of a training.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/run_trace.h"
#include "engine/runtime/steering.h"
#include "engine/runtime/step_observer.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Threads: ScheduleOf() and HasData() on any; Start() while no rank works; the others on the rank's
// host thread.
class EvaluationRunner {
 public:
  // What is told of an evaluation, and what may stop it. All borrowed.
  struct Listeners {
    RunTrace* trace = nullptr;
    StepObserver* observer = nullptr;
    Steering* steering = nullptr;
    // Puts the regime's Schedule into the trace. On one rank of each process.
    std::function<Status(const Regime& regime)> on_schedule;
    std::function<void(const std::string& text)> on_message;  // on rank 0's thread
  };

  // `ranks` is borrowed, and may have none yet.
  explicit EvaluationRunner(Ranks* ranks)
      : ranks_(*ranks), of_rank_(static_cast<size_t>(ranks->size())) {}

  // Before the first RunIfDue().
  void Start(Listeners listeners) { listeners_ = std::move(listeners); }

  // Whether there are data for it.
  bool HasData() const { return ranks_.job().held_out != nullptr; }
  // What evaluates between steps with these keys.
  Result<std::shared_ptr<const plan::Schedule>> ScheduleOf(const config::Config& config);

  // If eval.every has one due before `step`, with which the run may end. False: it was left, as the
  // run is to stop. On all ranks alike.
  Result<bool> RunIfDue(int rank, int64_t step, const Regime& regime, bool is_end);
  bool IsRunning(int rank) const { return At(rank).is_running; }
  // Whether the rank's last one was before `step`.
  bool WasBefore(int rank, int64_t step) const { return At(rank).step == step; }

 private:
  // What a rank was asked for between two batches, where no next step is decided.
  struct StopRequest {
    int signal = 0;
    bool stops = false;
  };
  struct OfRank {
    int64_t step = -1;    // before which it did so last
    int64_t batches = 0;  // since the start
    bool is_running = false;
  };

  OfRank& At(int rank) { return of_rank_[static_cast<size_t>(rank)]; }
  const OfRank& At(int rank) const { return of_rank_[static_cast<size_t>(rank)]; }
  int64_t CountedTargets();
  Result<bool> Run(int rank, int64_t step, const plan::Schedule& schedule);
  // Whether any process was told to stop: the same on all ranks, which meet for it.
  bool AgreeToStop(int rank);

  Ranks& ranks_;
  Listeners listeners_;
  std::vector<OfRank> of_rank_;  // each its own host thread's

  Mutex mutex_;
  std::vector<std::pair<plan::Policy, std::shared_ptr<const plan::Schedule>>> schedules_
      GUARDED_BY(mutex_);
  std::optional<int64_t> targets_ GUARDED_BY(mutex_);  // that count, once they are
};

}  // namespace shardscope::runtime
