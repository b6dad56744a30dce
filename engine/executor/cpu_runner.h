// Executor: runs a Schedule. One host thread per rank issues its program in order; each stream is
// an in-order queue with a worker thread of its own (the CPU device); dependencies, stream order
// and communicator order are waited for on the stream, host dependencies on the host. Every op run
// gets its times and the dependency that was done last: the cause of a stall is recorded, not
// inferred. No LibTorch.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/executor/compute_slots.h"
#include "engine/executor/step_runner.h"
#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::executor {

// One rank's executor on the CPU. Owns the rank's stream threads; lives as long as the run.
class CpuRunner : public StepRunner {
 public:
  // `slots` is shared by all ranks of the process and outlives this.
  CpuRunner(int rank, OpBodies* bodies, ExecutionSink* sink, ComputeSlots* slots);
  ~CpuRunner() override;

  Status SetSchedule(const plan::Schedule& schedule) override;
  Status RunStep(int64_t step) override;
  void set_on_failure(OnFailure on_failure) override;
  void set_delay_hook(DelayHook hook) override;
  int64_t last_end_ns() const override;
  Activity activity() const override;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardscope::executor
