// What a rank's executor reports while it runs a step: times, causes and memory of every op.
#pragma once

#include <cstdint>

#include "engine/executor/op_bodies.h"

namespace shardscope::executor {

using words::BlockingKind;

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
  // The buffer that it lies beside, whichever ops take and free that; kNone: it is the op's own.
  plan::BufferId buffer = plan::kNone;
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

}  // namespace shardscope::executor
