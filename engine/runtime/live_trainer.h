// LiveTrainer: the implementation of Trainer. It has the loop over steps (RankLoop), and starts and
// ends a run. What ranks agree on for their next steps is a RunAgreement's, whether keys can be run
// RunChecks say, what is recorded goes to a RunTrace, checkpoints are RunCheckpoints', and what the
// user is told goes through RunMessages.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/config/control_server.h"
#include "engine/runtime/dump.h"
#include "engine/runtime/evaluation_runner.h"
#include "engine/runtime/measured_keys.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/run_agreement.h"
#include "engine/runtime/run_checkpoints.h"
#include "engine/runtime/run_checks.h"
#include "engine/runtime/run_folder.h"
#include "engine/runtime/run_messages.h"
#include "engine/runtime/run_trace.h"
#include "engine/runtime/steering.h"
#include "engine/runtime/step_observer.h"
#include "engine/runtime/trainer.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

class LiveTrainer : public Trainer {
 public:
  explicit LiveTrainer(TrainerOptions options)
      : options_(std::move(options)), checkpoints_(options_) {}

  // live_trainer_start.cc. Nothing is created in the file system before all that can be wrong with
  // the input has been found.
  Status Open(Job job);
  // After Open() has failed: nothing but the destructor may follow.
  void DiscardFolder();

  Result<RunSummary> Run() override;
  Steering& steering() override { return *steering_; }
  bool is_stuck() const override { return ranks_->is_stuck(); }

 private:
  // What a rank tells those in other processes about a step.
  struct SharedStep {
    StepReport report;
    int signal = 0;  // that told it to stop
  };

  bool is_leader() const { return options_.is_leader(); }

  // live_trainer_start.cc
  Status OpenRest();
  // Of listed changes beyond the last step.
  void SayIdleChanges();
  Status OpenControl();
  Status OpenFolder();
  Status OpenTrace();
  Status WriteConfig(config::Config config) const;

  // On the ranks' host threads.
  Status RankLoop(int rank);
  // What comes before a step: `regime` comes into force, a checkpoint that is due, a pause. Returns
  // what is in force then: another regime has ended a pause.
  Result<std::shared_ptr<const Regime>> EnterStep(int rank, int64_t step,
                                                  std::shared_ptr<const Regime> regime);
  Status RunStep(int rank, int64_t step, const Regime& regime);
  Result<std::shared_ptr<const Regime>> WaitAndAgree(int rank, int64_t step);
  void AtControl(int rank, int64_t step);
  // All ranks, before the first step of a regime.
  Status Enter(int rank, int64_t step, const std::shared_ptr<const Regime>& regime);
  // Steps that ranks of other processes report, too.
  void ShareStep(int rank, const StepReport& mine);
  // On one of each process.
  void Apply(int64_t step, const Regime& regime);
  Status RegisterSchedule(const Regime& regime);

  // On the thread of Run(), once no rank works.
  void AddParametersToDump(const std::string& prefix);
  Status WriteDump(int64_t end_step);
  void RecordError(int64_t step, const Status& error);

  struct OfRank {
    int64_t next_regime = 0;
    std::shared_ptr<const Regime> entered;
  };

  // Each uses some of those before it, also while it is destroyed.
  const TrainerOptions options_;
  std::optional<RunFolder> folder_;        // always there once Open() is through
  std::unique_ptr<RunMessages> messages_;  // of folder_
  std::unique_ptr<RunTrace> trace_;
  std::unique_ptr<StepObserver> observer_;  // uses trace_
  std::unique_ptr<Ranks> ranks_;            // uses observer_
  std::unique_ptr<Steering> steering_;
  RunCheckpoints checkpoints_;  // once started its thread uses messages_ and trace_
  std::unique_ptr<EvaluationRunner> evaluations_;
  std::unique_ptr<RunChecks> checks_;  // uses ranks_, checkpoints_ and evaluations_
  std::unique_ptr<RunAgreement> agreement_;
  std::unique_ptr<MeasuredKeys> measured_;
  std::optional<Dump> dump_;                        // if one is asked for
  std::vector<OfRank> of_rank_;                     // each its own host thread's
  std::unique_ptr<config::ControlServer> control_;  // its thread uses steering_, which uses checks_
};

}  // namespace shardscope::runtime
