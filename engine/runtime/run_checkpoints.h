// RunCheckpoints: the checkpoint that a run goes on from, and those that it leaves: where they lie,
// before which steps one is due, and what it says of the run. CheckpointWriter
// (checkpoint/checkpoint_writer.h) writes them while the training goes on. The trainer is the one
// that uses it.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/checkpoint/checkpoint.h"
#include "engine/config/config.h"
#include "engine/plan/schedule.h"
#include "engine/runtime/checkpoint/checkpoint_plan.h"
#include "engine/runtime/checkpoint/checkpoint_writer.h"
#include "engine/runtime/ranks/ranks.h"
#include "engine/runtime/regime_log.h"
#include "engine/runtime/run_folder.h"
#include "engine/runtime/run_trace.h"
#include "engine/runtime/trainer.h"
#include "trace/base/process.h"
#include "trace/base/resumed_from.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

// Threads: HasCopyWith() on any; what names a rank on that rank's host thread; the others on one
// thread, while no rank works.
class RunCheckpoints {
 public:
  // The run, once it is open. All but the id are borrowed.
  struct Run {
    std::string id;
    Ranks* ranks = nullptr;
    RunTrace* trace = nullptr;
    // The most that the ranks of each program can hold of their own while they run `schedule` and
    // have a copy of their state for checkpoints. On any rank's host thread.
    std::function<std::vector<int64_t>(const plan::Schedule& schedule)> bounds_with_copy;
    std::function<void(const std::string& text)> on_message;  // on any thread
  };

  // `options` is borrowed.
  explicit RunCheckpoints(const TrainerOptions& options) : options_(options) {}

  // Whether checkpoints can be written where `config` says. Creates nothing.
  static Status CheckPath(const config::Config& config);

  // The checkpoint to go on from, before anything is created, and what it says of the job; then
  // each rank's part of it.
  Status OpenResume(Job* job);
  Status LoadResume(Ranks* ranks);
  // None: the run begins anew. Until Start().
  std::optional<ResumedFrom> resumed_from() const;
  // Where checkpoints go. Removes what killed runs left there. Error: those of another run are
  // there that this one would come to replace.
  Status OpenFolder(const RunFolder& folder);
  // After these, before the first step.
  void Start(Run run);

  // Whether ranks keep a copy of their state for checkpoints with `config`, or have one already,
  // where that takes memory of theirs.
  bool HasCopyWith(const config::Config& config) const;

  // The rank's state before `step`, where `regime` is in force. Every rank of the run at the same
  // step.
  void Save(int rank, int64_t step, const Regime& regime);
  // The same if there is one due (CheckpointPlan). Returns whether there was.
  bool SaveIfDue(int rank, int64_t step, const Regime& regime, bool is_end);
  // Before the rank's state moves: a copy of how it lies now is of no use.
  void ReleaseCopy(int rank);

  // When no rank saves any more: the last one is written.
  void Close(bool is_failed);
  // After that, where rank 0 is: error if the run ended before step `steps` and its checkpoint is
  // lost. `every`: checkpoint.every as the run ended.
  Status CheckLast(int64_t steps, int64_t every) const;

 private:
  // What is said instead of writing one before the first step; empty: nothing is in its place.
  std::string WhyNoneBefore(int64_t first_step) const;
  // On rank 0's process: path_ can be written to, and is no other run's.
  Status ClaimFolder(int64_t first_step);
  void RemoveHalfWritten();
  CheckpointHead HeadOf(int64_t step, const Regime& regime) const;
  // Why the rank may not have a copy of its state; empty: it may.
  std::string RefuseCopy(int rank, const Regime& regime) const;
  void TakeOutcome(const CheckpointOutcome& outcome);

  const TrainerOptions& options_;
  Run run_;

  // What the run goes on from, until Start(), and what the user is told then.
  std::optional<checkpoint::Checkpoint> from_;
  std::vector<std::string> notes_;

  std::string path_;  // where checkpoints are written
  // WhyNoneBefore() the first step. In all processes alike, so that no rank writes its part in
  // vain.
  std::string at_start_;
  FolderLock lock_;
  // The newest checkpoint, if it could not be written. The writer's, as long as there is one.
  std::optional<CheckpointOutcome> lost_;
  std::optional<CheckpointPlan> plan_;  // while and after ranks run
  // What ranks have copied of their state: on all of them, and stays for the next checkpoint.
  std::atomic<bool> has_copies_ = false;
  std::unique_ptr<CheckpointWriter> writer_;  // while ranks run; last: its thread uses the others
};

}  // namespace shardscope::runtime
