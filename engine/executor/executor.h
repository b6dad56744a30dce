// Executor: runs a Schedule. One host thread per rank issues its program in order; each stream is
// an in-order queue with a worker thread of its own (the CPU device); dependencies, stream order
// and communicator order are waited for on the stream, host dependencies on the host. Every op run
// gets its times and the dependency that was done last: the cause of a stall is recorded, not
// inferred. No LibTorch.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/executor/activity.h"
#include "engine/executor/compute_slots.h"
#include "engine/executor/op_bodies.h"
#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::executor {

// Why an op could not start earlier: what was done last before it became ready.
enum class BlockingKind : uint8_t {
  kNone,  // ready when issued
  kEvent,
  kStream,
  kHost,  // the host waited before it issued this op
  kStreamOrder,
  kCommunicatorOrder,
  kSlot,  // ready, but all compute slots were taken
};

struct OpTimes {
  int64_t issued_ns = 0;
  int64_t ready_ns = 0;
  int64_t started_ns = 0;
  int64_t ended_ns = 0;
  int64_t slot_wait_ns = 0;
  int64_t cpu_ns = 0;
  plan::OpIndex blocking_op = plan::kNone;
  BlockingKind blocking_kind = BlockingKind::kNone;
};

// Memory that no buffer of the Schedule stands for: an op's temporaries, gaps between parameters.
struct MemoryChange {
  plan::MemoryCategory category = plan::MemoryCategory::kOther;
  int64_t bytes = 0;  // signed
  int64_t executed_ns = 0;
};

// Receives what happened. Threads: called on stream threads (host ops: on the host thread),
// concurrently; must not block.
class ExecutionSink {
 public:
  virtual ~ExecutionSink() = default;
  virtual void OnOpEnd(const OpContext& context, const OpTimes& times) = 0;
  // `bytes` signed. Both ledgers: when the host issued it, when it took effect.
  virtual void OnMemory(const OpContext& context, plan::BufferId buffer, int64_t bytes,
                        int64_t issued_ns, int64_t executed_ns) = 0;
  // What an op takes or gives back beyond its buffers; in the issue ledger when the op was issued.
  virtual void OnOtherMemory(const OpContext& context, const MemoryChange& change) = 0;
};

// For tests: called before each op runs, on its stream thread; may sleep or wait on a latch.
using DelayHook = std::function<void(const OpContext&)>;

// Whose fault it is that an op threw.
enum class Culprit : uint8_t { kThisRank, kOtherRank };
using OnFailure = std::function<void(Culprit culprit)>;

// One rank's executor. Owns the rank's stream threads; lives as long as the run.
// Threads: RunStep on one thread at a time (the rank's host thread).
class RankExecutor {
 public:
  // `slots` is shared by all ranks of the process and outlives this.
  RankExecutor(int rank, OpBodies* bodies, ExecutionSink* sink, ComputeSlots* slots);
  ~RankExecutor();

  // Issues every op of this rank's program and waits until all have ended. On an exception in any
  // op: cancels the ops not yet started, waits for the running ones, returns an error that names
  // rank and op. The caller aborts the transport so that other ranks do not hang.
  Status RunStep(const plan::Schedule& schedule, int64_t step);

  // Called once, on the failing thread, as soon as an op of this rank throws: the runtime aborts
  // the transport here.
  void set_on_failure(OnFailure on_failure);
  void set_delay_hook(DelayHook hook);

  // End of the last op of the last step.
  int64_t last_end_ns() const;

  // What this rank is doing right now. Any thread.
  Activity activity() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shardscope::executor
