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
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "engine/cuda/device/device_log.h"
#include "engine/cuda/device/runtime_api.h"
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
  // caching allocator wants it; false: when the op that frees is issued (a static pool).
  bool free_late = true;
};

// Owns the rank's streams and events. Threads: as StepRunner says; also created on the rank's
// device by whoever creates it, and destroyed with no step running.
class CudaRunner : public executor::StepRunner {
 public:
  // Creates no stream yet. Throws std::runtime_error where CUDA fails.
  explicit CudaRunner(const CudaRunnerOptions& options);
  ~CudaRunner() override;

  Status SetSchedule(const plan::Schedule& schedule) override;
  Status RunStep(int64_t step) override;
  void set_on_failure(executor::OnFailure on_failure) override;
  void set_delay_hook(executor::DelayHook hook) override;
  int64_t last_end_ns() const override;
  executor::Activity activity() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardscope::cuda
