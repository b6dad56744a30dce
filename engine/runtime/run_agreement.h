// RunAgreement: what the ranks of a run agree on, so that all of them do the same: which run it is,
// what they begin with, and what is in force from which step on (Regime, regime_log.h).
//
// Where the ranks are processes, rank 0's is the leader, which has folder, control socket, log and
// markers; the others follow, and are told here what it has made and decided. Where they are
// threads they have that already.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/run_checks.h"
#include "engine/runtime/run_folder.h"
#include "engine/runtime/steering.h"
#include "engine/runtime/trainer.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Threads: AgreeOnRun() and run_id() on one thread, while no rank works; CheckInitialState() and
// Agree() on the host threads of all ranks, which wait in it for one another; At() and Newest() on
// any. All ranks call the same in the same order. Throws what transports throw.
class RunAgreement {
 public:
  // Of the same run, all borrowed.
  struct Run {
    Ranks* ranks = nullptr;
    Steering* steering = nullptr;                             // rank 0's decides
    RunChecks* checks = nullptr;                              // has the Schedules
    std::function<void(const std::string& text)> on_message;  // on rank 0's host thread
  };

  // `options` is borrowed.
  RunAgreement(const TrainerOptions& options, Run run) : options_(options), run_(std::move(run)) {}

  // At the start: the run's folder and id, and that all were given the same keys and data. `folder`
  // is the leader's; where this process follows it is set to the same. Error: a process was given
  // something else, or does not see the folder.
  Status AgreeOnRun(std::optional<RunFolder>* folder);
  // After that.
  const std::string& run_id() const { return run_id_; }

  // Error: a rank begins with other parameters. All ranks come to the same.
  Status CheckInitialState(int rank);

  // Rank 0's decision for `step`, on all ranks: the regime in force.
  std::shared_ptr<const Regime> Agree(int rank, int64_t step);

  // What was agreed on.
  std::shared_ptr<const Regime> At(int64_t number) const { return regimes_.At(number); }
  std::shared_ptr<const Regime> Newest() const { return regimes_.Newest(); }

 private:
  bool is_leader() const { return options_.is_leader(); }
  Status TakeRun(std::string_view text, std::optional<RunFolder>* folder);
  // On rank 0's host thread.
  std::shared_ptr<const Regime> Decide(int64_t step);
  // Rank 0's regime `number`, which the other processes do not have yet.
  void ShareRegime(int rank, int64_t number);
  // Throws if there is none: rank 0 has built it when it accepted these keys.
  std::shared_ptr<const plan::Schedule> ScheduleOf(const config::Config& config);

  const TrainerOptions& options_;
  const Run run_;
  std::string run_id_;
  int64_t num_shared_ = 0;  // regimes that all processes have; the host thread's of their one rank
  RegimeLog regimes_;
};

}  // namespace shardscope::runtime
