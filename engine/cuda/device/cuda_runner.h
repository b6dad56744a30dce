// CudaRunner: runs a Schedule on a GPU. The rank's host thread issues its program in order;
// every stream of the Schedule is a CUDA stream, every dependency a wait for an event, and the GPU
// finds its own way through them. Without CUDA's headers: all calls go through RuntimeApi.
//
//   event dependency, communicator order  the stream waits for the event behind the other op
//   stream dependency                     an event is recorded on the other stream, now, and waited
//                                         for: all that was issued there so far
//   host dependency                       the host waits for the event behind the other op
//   host ops (stream 0)                   the host waits for what they depend on; their copies go
//                                         to a stream of their own, which others wait for
//   work of the host on a stream          cudaLaunchHostFunc: a thread of CUDA does it when the
//     (OpBodies::HostWork)                stream comes to it, as a rule one after the other for
//                                         all of a GPU; what it throws fails the step at its end
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/device_plan.h"
#include "engine/cuda/device/runtime_api.h"
#include "engine/cuda/device/streams_and_events.h"
#include "engine/executor/cause.h"
#include "engine/executor/step_runner.h"

namespace shardscope::cuda {

struct CudaRunnerOptions {
  int rank = 0;
  int device = 0;
  RuntimeApi api;
  // All borrowed; they outlive the executor.
  executor::OpBodies* bodies = nullptr;
  executor::ExecutionSink* sink = nullptr;
  DeviceLog* log = nullptr;  // null: times of ops come from CUDA events
  // While it is false ops are neither logged nor timed: theirs are the host's times. Changes only
  // where no rank has an op under way, as in the op that starts a step. Null: true.
  const std::atomic<bool>* is_recording = nullptr;
  // After a step whose times come from events: how far they may be off against the host's clock,
  // all alike. May be null.
  std::function<void(int64_t time_ns, int64_t uncertainty_ns)> on_clock;
  // Bodies free when the stream that allocated may reuse the memory (FreesByOp), as LibTorch's
  // caching allocator needs it; false: when the op that frees is issued (a static pool).
  bool free_late = true;
};

// Owns the rank's streams and events. Threads: as StepRunner says; created on a
// thread whose device is the rank's, and destroyed with no step running.
class CudaRunner : public executor::StepRunner {
 public:
  // Creates no stream yet. Throws std::runtime_error where CUDA fails.
  explicit CudaRunner(const CudaRunnerOptions& options);
  ~CudaRunner() override;

  Status SetSchedule(const plan::Schedule& schedule) override;
  Status RunStep(int64_t step) override;
  void set_on_failure(executor::OnFailure on_failure) override {
    on_failure_ = std::move(on_failure);
  }
  void set_delay_hook(executor::DelayHook hook) override { delay_hook_ = std::move(hook); }
  int64_t last_end_ns() const override { return last_end_ns_; }
  executor::Activity activity() const override { return board_.Read(); }

 private:
  // What the host noted about an op of the running step.
  struct OpState {
    bool is_issued = false;
    Event started = nullptr;  // without a DeviceLog only
    Event ended = nullptr;    // if anything waits for it, or without a DeviceLog
    int64_t issued_ns = 0;
    int64_t issue_end_ns = 0;
    int64_t cpu_ns = 0;
    executor::HostWait host_wait;  // the last one before it was issued
    executor::OpTimes times;       // once the step is over
  };

  // Work of the host on a stream, and how it went.
  struct HostCall {
    std::function<void()> work;
    int64_t started_ns = 0;
    int64_t ended_ns = 0;
    int64_t cpu_ns = 0;
    std::exception_ptr error;
    std::atomic<bool> is_running = false;
  };
  static void DoHostCall(void* call);

  // A buffer that was given back, when the host issued that.
  struct Freed {
    plan::BufferId buffer = plan::kNone;
    plan::OpIndex op = plan::kNone;  // the op that frees it
    int64_t bytes = 0;
    int64_t issued_ns = 0;
  };
  struct Allocated {
    plan::BufferId buffer = plan::kNone;
    plan::OpIndex op = plan::kNone;
    int64_t bytes = 0;
  };

  bool has_log() const { return options_.log != nullptr; }
  bool is_recording() const { return options_.is_recording == nullptr || *options_.is_recording; }

  void Begin();
  void IssueAll();
  void Issue(const executor::OpContext& context);
  void WaitOnHost(plan::OpIndex index);
  // Waits until `target` has ended on the GPU; whether it had not yet.
  bool HasWaitedFor(plan::OpIndex target);
  void WaitOnStream(plan::OpIndex index, Stream stream);
  void RunBodies(const executor::OpContext& context);
  void GiveBack(const std::vector<plan::BufferId>& buffers, int64_t issued_ns);
  void SynchronizeAll();
  void LeaveAll();
  void FindTimes();
  void FindTimesOf(plan::OpIndex index, const DeviceInterval& interval, int64_t now_ns);
  void Report();

  executor::OpContext ContextOf(plan::OpIndex index) const;
  const plan::Op& OpAt(plan::OpIndex index) const {
    return step_context_.program->ops[static_cast<size_t>(index)];
  }
  OpState& State(plan::OpIndex index) { return states_[static_cast<size_t>(index)]; }
  const OpState& State(plan::OpIndex index) const { return states_[static_cast<size_t>(index)]; }
  Stream StreamOf(plan::StreamIndex stream) const {
    return stream_of_[static_cast<size_t>(stream)];
  }
  void RecordEvent(Event event, Stream stream) {
    Check(api_, "cudaEventRecord", api_.EventRecord(event, stream));
  }
  // `caught` while the step was at `context`.
  void Fail(const executor::OpContext& context, const std::exception_ptr& caught);

  const CudaRunnerOptions options_;
  const RuntimeApi api_;
  executor::OnFailure on_failure_;
  executor::DelayHook delay_hook_;
  int64_t last_end_ns_ = 0;
  executor::ActivityBoard board_;
  EventPool time_events_;
  EventPool wait_events_;
  EventClock clock_;
  DeviceStreams streams_;

  // The step that runs.
  executor::OpContext step_context_;
  DevicePlan plan_;
  std::vector<Stream> stream_of_;  // by StreamIndex
  std::vector<OpState> states_;
  std::map<plan::OpIndex, HostCall> host_calls_;  // addresses are stable
  std::vector<plan::OpIndex> freed_by_;           // by buffer
  std::vector<Allocated> allocated_;
  std::vector<Freed> freed_;
  int64_t step_start_ns_ = 0;
  executor::HostWait last_host_wait_;
  Status status_;
};

}  // namespace shardscope::cuda
