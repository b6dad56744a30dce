// LiveTrainer: the implementation of Trainer. What ranks agree on for their next steps is in a
// RegimeLog, what is recorded goes to a RunTrace, checkpoints are RunCheckpoints'; it has the loop
// over steps (RankLoop), and starts and ends a run.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/footprint/advice.h"
#include "engine/runtime/dump.h"
#include "engine/runtime/evaluation_runner.h"
#include "engine/runtime/measured_keys.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/run_checkpoints.h"
#include "engine/runtime/run_trace.h"
#include "engine/runtime/schedule_cache.h"
#include "engine/runtime/step_observer.h"
#include "engine/runtime/trainer.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {

class LiveTrainer : public Trainer {
 public:
  explicit LiveTrainer(TrainerOptions options)
      : options_(std::move(options)),
        stops_without_trace_(options_.config.Get("record.on_error") == "stop"),
        checkpoints_(options_) {}

  // live_trainer_start.cc. Nothing is created in the file system before all that can be wrong with
  // the input has been found.
  Status Open(Job job);
  // After Open() has failed.
  void DiscardFolder() const;

  Result<RunSummary> Run() override;
  Steering& steering() override { return *steering_; }
  bool is_stuck() const override { return ranks_->is_stuck(); }

 private:
  // What a rank tells those in other processes about a step.
  struct SharedStep {
    StepReport report;
    int signal = 0;  // that told it to stop
  };

  // live_trainer_start.cc
  Status CheckFiles() const;
  Status OpenRest();
  Status CheckChanges();
  // Of listed changes beyond the last step.
  void SayIdleChanges();
  Status OpenControl();
  Status OpenFolder();
  Status OpenTrace();
  Status WriteConfig(config::Config config) const;
  // `reads`: schedule.file is read again.
  Result<std::shared_ptr<const plan::Schedule>> ScheduleOf(const config::Config& config,
                                                           bool reads = false) const;
  // Whether engine.memory_limit lets in what ranks can need with `config`.
  Status CheckLimit(const config::Config& config, const plan::Schedule& schedule,
                    const footprint::Question& question) const;
  Result<footprint::Footprint> FootprintWith(const config::Config& config) const;
  // The most that the ranks of each program can hold of their own while they run `schedule`, with
  // a copy of their state for checkpoints or without.
  std::vector<int64_t> BoundsOf(const plan::Schedule& schedule, bool has_copy) const;
  // Error: what evaluates cannot be built, or does not fit.
  Status CheckEvaluation(const config::Config& config, const footprint::Question& question);
  Status CheckRun(const config::Config& before, const config::Config& after);
  // What is said beside the bytes where a rank comes to the limit while it trains.
  std::string ExplainOutOfMemory(int64_t wanted_bytes) const;

  // On the ranks' host threads.
  Status RankLoop(int rank);
  Status CheckInitialState(int rank);
  // What comes before a step: `regime` comes into force, a checkpoint that is due, a pause. Returns
  // what is in force then: another regime has ended a pause.
  Result<std::shared_ptr<const Regime>> EnterStep(int rank, int64_t step,
                                                  std::shared_ptr<const Regime> regime);
  Status RunStep(int rank, int64_t step, const Regime& regime);
  Result<std::shared_ptr<const Regime>> WaitAndAgree(int rank, int64_t step);
  // Rank 0's decision for `step`, agreed on by all ranks; returns the regime in force.
  std::shared_ptr<const Regime> Agree(int rank, int64_t step);
  void AtControl(int rank, int64_t step);
  // Steps that ranks of other processes report, too.
  void ShareStep(int rank, const StepReport& mine);
  // All ranks, before the first step of a regime.
  Status Enter(int rank, int64_t step, const std::shared_ptr<const Regime>& regime);
  void Collect(int rank, const StepReport& mine);

  // What processes of one run tell one another: rank 0's is the leader, which has folder, control
  // socket, log and markers; the others follow. All of it does nothing where the ranks are threads.
  bool has_processes() const { return options_.launch.has_value(); }
  bool is_leader() const { return options_.is_leader(); }
  // At the start: the leader's folder and run id, and whether all were given the same keys.
  Status AgreeOnRun();
  Status TakeRun(std::string_view text);
  // Rank 0's regime `number`, which the other processes do not have yet.
  void AgreeOnRegime(int rank, int64_t number);

  // On the thread of Run(), once no rank works.
  void AddParametersToDump(const std::string& prefix);
  Status WriteDump(int64_t end_step);
  void RecordError(int64_t step, const Status& error);

  // On rank 0's host thread.
  std::shared_ptr<const Regime> Decide(int64_t step);
  void Apply(int64_t step, const Regime& regime);
  executor::PredictedPeaks PredictPeaks(const Regime& regime) const;
  Status RegisterSchedule(const Regime& regime);
  void Message(const std::string& text);
  Status CheckTrace();

  const TrainerOptions options_;
  const bool stops_without_trace_;   // record.on_error
  std::optional<RunFolder> folder_;  // always there once Open() is through
  std::string run_id_;
  int64_t num_agreed_ = 0;  // regimes that all processes have
  std::unique_ptr<RunTrace> trace_;
  bool warned_of_trace_ = false;
  std::unique_ptr<StepObserver> observer_;  // uses trace_
  std::unique_ptr<Ranks> ranks_;            // uses observer_
  std::unique_ptr<Steering> steering_;
  std::unique_ptr<ScheduleCache> schedules_;
  std::unique_ptr<EvaluationRunner> evaluations_;   // uses trace_, observer_, ranks_ and steering_
  std::unique_ptr<MeasuredKeys> measured_;          // uses ranks_ and steering_
  std::unique_ptr<config::ControlServer> control_;  // uses steering_
  std::optional<Dump> dump_;                        // if one is asked for
  std::unique_ptr<StepReports> reports_;
  RegimeLog regimes_;

  Mutex message_mutex_;         // one message at a time; held while the user is told
  RunCheckpoints checkpoints_;  // uses options_, and once started trace_, ranks_ and Message()

  struct OfRank {
    int64_t next_regime = 0;
    std::shared_ptr<const Regime> entered;
  };
  std::vector<OfRank> of_rank_;  // each its own host thread's
};

}  // namespace shardscope::runtime
