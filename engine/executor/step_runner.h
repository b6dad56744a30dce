// StepRunner: runs one rank's part of a Schedule on some device. CpuRunner does it with threads
// of the CPU, cuda::CudaRunner with the streams of a GPU; what runs steps depends on neither.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/executor/activity.h"
#include "engine/executor/execution_sink.h"
#include "trace/base/status.h"

namespace shardscope::executor {

// For tests: called before each op runs, on its stream thread (on a GPU: before it is issued, on
// the host thread); may sleep or wait on a latch.
using DelayHook = std::function<void(const OpContext&)>;

// Whose fault it is that an op threw.
enum class Culprit : uint8_t { kThisRank, kOtherRank };
using OnFailure = std::function<void(Culprit culprit)>;

// Owner: the rank; lives as long as the run. Threads: RunStep on one thread at a time (the rank's
// host thread).
class StepRunner {
 public:
  virtual ~StepRunner() = default;

  // What the steps from now on run; borrowed until the next call. Resolves this rank's program once
  // for all of them. Before the first step, and while none runs. Errors: those of MakeStepPlan().
  virtual Status SetSchedule(const plan::Schedule& schedule) = 0;

  // Issues every op of this rank's program and waits until all have ended. On an exception in any
  // op: cancels the ops not yet started, waits for the running ones, returns an error that names
  // rank and op. The caller aborts the transport so that other ranks do not hang.
  virtual Status RunStep(int64_t step) = 0;

  // Called once, on the failing thread, as soon as an op of this rank throws: the runtime aborts
  // the transport here.
  virtual void set_on_failure(OnFailure on_failure) = 0;
  virtual void set_delay_hook(DelayHook hook) = 0;

  // End of the last op of the last step.
  virtual int64_t last_end_ns() const = 0;

  // What this rank is doing right now. Any thread.
  virtual Activity activity() const = 0;
};

}  // namespace shardscope::executor
