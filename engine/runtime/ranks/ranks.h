// Ranks: the ranks of this process (threads: all of the run, or one), with what they share. Runs
// steps; control, traces and folders are the Trainer's.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan/memory.h"
#include "engine/runtime/ranks/device.h"
#include "engine/runtime/ranks/faulty_bodies.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"

namespace shardscope::runtime {

class Ranks {
 public:
  // `sink` and `device` are borrowed. Error: data too short for one step.
  static Result<std::unique_ptr<Ranks>> Make(Job job,
                                             std::unique_ptr<transport::Transport> transport,
                                             executor::ExecutionSink* sink, Device* device);
  // The same without ranks, so without the memory and the time that their initial state takes:
  // once it is found that the run fits, AddRanks() is called, once.
  static Result<std::unique_ptr<Ranks>> Prepare(Job job,
                                                std::unique_ptr<transport::Transport> transport,
                                                Device* device);
  void AddRanks(executor::ExecutionSink* sink);
  ~Ranks();

  // Of the run.
  int size() const { return job_.training.num_ranks; }
  // Of this process: the others do no work here.
  std::vector<int> local() const;
  int num_local() const { return job_.only_rank ? 1 : size(); }
  int first_local() const { return job_.only_rank.value_or(0); }
  bool IsLocal(int rank) const {
    return rank >= first_local() && rank < first_local() + num_local();
  }

  const Job& job() const { return job_; }
  transport::Transport& transport() { return *transport_; }
  // What they take beside the buffers of `schedule`, which it borrows, as it does the transport.
  plan::Unlisted UnlistedMemory(const plan::Schedule& schedule) const;
  RankWork& work(int rank) { return *At(rank).work; }
  executor::StepRunner& runner(int rank) { return *At(rank).runner; }

  // What the steps of `rank` from now on run; borrowed until the next call. On the rank's thread.
  Status SetSchedule(int rank, const plan::Schedule& schedule);
  // The emulated links of its collectives and how late its ops are, in the same way.
  void SetLinks(int rank, const config::DimensionLinks& links) { work(rank).SetLinks(links); }
  void SetHostLink(int rank, const config::DimensionLink& link) { work(rank).SetHostLink(link); }
  void SetLateness(int rank, const config::Lateness& lateness) {
    At(rank).faulty->SetLateness(lateness);
  }

  // Calls `body(rank)` on one thread per rank of this process and waits for all. If some fail,
  // returns the error of the rank that failed first, with who waited for it: the others' only say
  // that they were interrupted. Ranks that do not end although they are told to are left behind,
  // see is_stuck().
  Status OnAll(const std::function<Status(int rank)>& body);

  // A rank hangs in its op and no other thread can end it. This object must then not be destroyed:
  // the process has to be left by std::_Exit() once everything is written.
  bool is_stuck() const { return is_stuck_; }

  // Tensors that all ranks of this process read.
  int64_t shared_tensor_bytes() const { return model_.table_bytes(); }

  // One whole parameter, put together from all ranks' shards; no step may run, and no rank may be
  // in another process.
  at::Tensor FullParameter(const std::string& name);

 private:
  struct Rank {
    // Goes last: LibTorch's allocator of pinned memory keeps the streams of its copies, and
    // puts an event on each when `work` gives the memory back.
    std::unique_ptr<executor::StepRunner> runner;
    std::unique_ptr<RankWork> work;
    std::unique_ptr<FaultyBodies> faulty;  // calls `work`
  };

  Ranks(Job job, std::unique_ptr<transport::Transport> transport, Device* device,
        model::Sampler sampler);
  const Rank& At(int rank) const { return ranks_[static_cast<size_t>(rank - first_local())]; }
  void AddRank(int rank, std::unique_ptr<RankWork> work, executor::ExecutionSink* sink);

  // What OnAll()'s threads share with it; they may outlive the call.
  struct Together {
    explicit Together(int num_ranks)
        : results(static_cast<size_t>(num_ranks)), ended(static_cast<size_t>(num_ranks)) {}
    Mutex mutex;
    CondVar changed;
    std::vector<Status> results GUARDED_BY(mutex);
    std::vector<char> ended GUARDED_BY(mutex);
    int num_ended GUARDED_BY(mutex) = 0;
  };
  struct Failure {
    int rank = -1;
    int64_t time_ns = 0;
    std::string others;  // what they were doing: who waited for the rank
  };
  void NoteFailure(int rank, executor::Culprit culprit);
  std::string DescribeOthers(int rank) const;
  bool WaitForAll(Together* together);
  bool IsHopeless(int rank, const Failure& failure) const;
  Status FirstError(const Together& together) const REQUIRES(together.mutex);

  const Job job_;
  const model::Model model_;
  std::unique_ptr<transport::Transport> transport_;
  Device& device_;
  const model::Sampler sampler_;  // of the first step
  bool is_stuck_ = false;
  mutable Mutex mutex_;
  Failure failure_ GUARDED_BY(mutex_);  // the first
  std::vector<Rank> ranks_;             // last: their threads use the others
};

}  // namespace shardscope::runtime
