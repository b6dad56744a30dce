// CheckpointWriter: writes checkpoints while the training goes on. Each rank copies its state
// between two steps; one thread a process then writes the copies, and rank 0's process completes
// the checkpoint once all ranks have written theirs.
//
//   <root>/step-40.3.partial/      the third checkpoint of this run, not yet whole
//     rank-0-of-2.safetensors      each rank's part, on the disk
//     rank-0-of-2.json             what is in it, for rank 0; .failed: it could not be written
//     run.toml, index.json
//   <root>/step-40                 all of it, by one rename
//
// A checkpoint that cannot be written costs that checkpoint, and is said; the training goes on.
// What this run has not written itself is neither replaced nor removed; one that is not whole is
// moved aside where a new one gets its name (step-40.aside).
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/checkpoint/index.h"
#include "engine/runtime/checkpoint/snapshot.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "trace/record/recorder.h"

namespace shardscope::runtime {

// What became of a checkpoint. `folder` is empty if there is none.
struct CheckpointOutcome {
  int64_t step = 0;
  std::string folder;
  std::string message;  // for the user
};

// What a checkpoint says of its run: an Index without files and parameters, and its run.toml.
struct CheckpointHead {
  checkpoint::Index index;
  std::string toml;
  int64_t keep = 0;  // checkpoint.keep, 0: all
};

class CheckpointWriter {
 public:
  struct Options {
    std::string root;  // there, or to be made
    int num_ranks = 1;
    std::vector<int> local;  // ranks of this process
    int64_t timeout_ns = 0;  // how long rank 0 waits for what other processes write
  };
  // Called on the writer's thread.
  struct Listener {
    std::function<void(schema::CheckpointRow row)> on_part;  // of each rank of this process
    // In the process of rank 0.
    std::function<void(const CheckpointOutcome& outcome)> on_outcome;
  };
  CheckpointWriter(Options options, Listener listener);
  // Waits for what is being written, unless Cancel() was called.
  ~CheckpointWriter();

  // A rank's state before `step`; borrowed.
  struct State {
    const StateLayout* layout = nullptr;
    std::span<const ShardedUnit> units;
    int64_t step = 0;
    std::string refusal;  // why no copy of it may be made; empty: it may
  };
  // On the rank's host thread, every rank of the run at the same step. Waits until the last
  // checkpoint is written. `head`: rank 0's.
  void Save(int rank, const State& state, std::optional<CheckpointHead> head);

  // The memory that the rank's copy takes. On its host thread.
  int64_t CopyBytes(int rank) const { return At(rank).snapshot.capacity(); }
  // Gives that memory back, once the last checkpoint is written. On its host thread, between two
  // steps; the next Save() takes memory anew.
  void Release(int rank);

  // Any thread: the run has failed; other processes get a moment to write what they have.
  void Cancel();

 private:
  struct Slot {
    Snapshot snapshot;
    bool is_taken = false;
    schema::CheckpointRow row;  // its error: why there is no copy
  };
  struct Written {
    checkpoint::Index index;  // of all ranks
    std::vector<std::string> errors;
  };

  Slot& At(int rank) { return slots_[static_cast<size_t>(rank - options_.local.front())]; }
  const Slot& At(int rank) const {
    return slots_[static_cast<size_t>(rank - options_.local.front())];
  }
  bool is_leader() const { return options_.local.front() == 0; }
  std::string FileName(int rank, std::string_view ending) const;
  void Work();
  // One checkpoint; the slots are the writer's meanwhile.
  void Write();
  void WriteRank(int rank, const std::string& partial, Written* written);
  void TakeOthers(const std::string& partial, Written* written);
  // `aside`: what is said where a damaged one of its name had to be moved out of the way.
  Status Complete(const std::string& partial, Written written, std::string* aside);
  void RemoveOld(const std::string& newest);
  bool IsTooLate(int64_t deadline_ns) const;

  const Options options_;
  const Listener listener_;

  mutable Mutex mutex_;
  CondVar changed_;
  size_t num_taken_ GUARDED_BY(mutex_) = 0;
  bool is_writing_ GUARDED_BY(mutex_) = false;
  int64_t cancelled_ns_ GUARDED_BY(mutex_) = 0;
  bool is_ending_ GUARDED_BY(mutex_) = false;

  // The host threads' until the last of them has come, then the writer's.
  std::vector<Slot> slots_;  // by local rank
  int64_t step_ = 0;
  int64_t number_ = 0;  // of the checkpoint in this run: the same in all processes
  std::optional<CheckpointHead> head_;

  std::deque<std::string> made_;  // by this run, oldest first
  std::thread thread_;            // last: it uses all of this
};

}  // namespace shardscope::runtime
