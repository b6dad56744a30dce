// Ranks: the ranks of this process (threads: all of the run, or one), with what they share. Runs
// steps; knows nothing of control, traces or folders.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/executor/executor.h"
#include "engine/runtime/ranks/rank_bodies.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

class Ranks {
 public:
  // `sink` is borrowed. Error: data too short for one step.
  static Result<std::unique_ptr<Ranks>> Make(Job job,
                                             std::unique_ptr<transport::Transport> transport,
                                             executor::ExecutionSink* sink, int compute_slots);
  ~Ranks();

  // Of the run.
  int size() const { return job_.training.num_ranks; }
  // Of this process: the others have no bodies and no executor here.
  std::vector<int> local() const;
  int num_local() const { return job_.only_rank ? 1 : size(); }
  int first_local() const { return job_.only_rank.value_or(0); }
  bool IsLocal(int rank) const {
    return rank >= first_local() && rank < first_local() + num_local();
  }

  const Job& job() const { return job_; }
  transport::Transport& transport() { return *transport_; }
  executor::ComputeSlots& slots() { return slots_; }
  RankBodies& bodies(int rank) { return *At(rank).bodies; }
  executor::RankExecutor& executor(int rank) { return *At(rank).executor; }

  // Calls `body(rank)` on one thread per rank of this process and waits for all. If some fail,
  // returns the error of the rank that failed first: the others' only say that they were
  // interrupted.
  Status OnAll(const std::function<Status(int rank)>& body);

  // Tensors that all ranks of this process read.
  int64_t shared_tensor_bytes() const { return model_.table_bytes(); }

  // One whole parameter, put together from all ranks' shards; no step may run, and no rank may be
  // in another process.
  at::Tensor FullParameter(const std::string& name);

 private:
  struct Rank {
    std::unique_ptr<RankBodies> bodies;
    std::unique_ptr<executor::RankExecutor> executor;
  };

  Ranks(Job job, std::unique_ptr<transport::Transport> transport, int compute_slots);
  const Rank& At(int rank) const { return ranks_[static_cast<size_t>(rank - first_local())]; }
  void AddRank(int rank, const model::Sampler& sampler, executor::ExecutionSink* sink);

  const Job job_;
  const model::Model model_;
  std::unique_ptr<transport::Transport> transport_;
  executor::ComputeSlots slots_;
  std::atomic<int> first_failed_{-1};
  std::vector<Rank> ranks_;  // last: their threads use the others
};

}  // namespace shardscope::runtime
