// CpuRunner: runs a Schedule. One host thread per rank issues its program in order; each stream is
// an in-order queue with a worker thread of its own (the CPU device); dependencies, stream order
// and communicator order are waited for on the stream, host dependencies on the host. Every op run
// gets its times and the dependency that was done last: the cause of a stall is recorded, not
// inferred. No LibTorch.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/executor/cause.h"
#include "engine/executor/compute_slots.h"
#include "engine/executor/step_plan.h"
#include "engine/executor/step_runner.h"
#include "engine/plan/op.h"
#include "engine/plan/schedule.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"

namespace shardscope::executor {

// One stream of one rank: a thread that runs what the host issued, in order. Owner: CpuRunner.
// Threads: Push on the host thread; `run` is called on the worker's own.
class StreamWorker {
 public:
  StreamWorker(const std::string& thread_name, std::function<void(plan::OpIndex)> run);
  // Runs what is still queued, then ends the thread.
  ~StreamWorker();
  StreamWorker(const StreamWorker&) = delete;
  StreamWorker& operator=(const StreamWorker&) = delete;

  void Push(plan::OpIndex index);

 private:
  void Loop();

  const std::function<void(plan::OpIndex)> run_;
  Mutex mutex_;
  CondVar changed_;
  std::deque<plan::OpIndex> queue_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  std::thread thread_;  // last: starts when all of the above exists
};

// One rank's executor on the CPU. Owns the rank's stream threads; lives as long as the run.
class CpuRunner : public StepRunner {
 public:
  // `slots` is shared by all ranks of the process and outlives this.
  CpuRunner(int rank, OpBodies* bodies, ExecutionSink* sink, ComputeSlots* slots);
  ~CpuRunner() override;

  Status SetSchedule(const plan::Schedule& schedule) override;
  Status RunStep(int64_t step) override;
  void set_on_failure(OnFailure on_failure) override { on_failure_ = std::move(on_failure); }
  void set_delay_hook(DelayHook hook) override { delay_hook_ = std::move(hook); }
  int64_t last_end_ns() const override { return last_end_ns_; }
  Activity activity() const override { return board_.Read(); }

 private:
  // Written before `done` is set (ended_ns) or before the op is put on its queue (the rest); read
  // after.
  struct OpState {
    std::atomic<uint32_t> done{0};
    int64_t ended_ns = 0;
    int64_t issued_ns = 0;
    HostWait host_wait;  // the last one before this op was issued
  };

  // On the host thread.
  void StartWorkers(const plan::Schedule& schedule);
  void Issue(plan::OpIndex index);
  void WaitOnHost(plan::OpIndex index);
  // On the thread of the op's stream.
  void Execute(plan::OpIndex index);
  OpTimes RunOp(OpContext context);
  void Fail(const std::string& error, Culprit culprit);
  OpState& State(plan::OpIndex index) { return states_[static_cast<size_t>(index)]; }
  const OpState& State(plan::OpIndex index) const { return states_[static_cast<size_t>(index)]; }

  const int rank_;
  OpBodies* const bodies_;
  ExecutionSink* const sink_;
  ComputeSlots* const slots_;
  OnFailure on_failure_;
  DelayHook delay_hook_;
  int64_t last_end_ns_ = 0;
  ActivityBoard board_;

  // Written by the host while no worker has work.
  StepPlan step_plan_;
  OpContext step_context_;  // of the step that runs, or ran last
  std::vector<OpState> states_;
  int64_t step_start_ns_ = 0;
  HostWait last_host_wait_;  // host thread only

  std::atomic<bool> failed_{false};
  std::string error_;  // written by the thread that sets failed_, read after the step
  std::atomic<uint32_t> unfinished_{0};

  // One per stream but the host's; index 0 stays empty. Last member: the threads use the others.
  std::vector<std::unique_ptr<StreamWorker>> workers_;
};

}  // namespace shardscope::executor
