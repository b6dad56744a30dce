// What ranks take beside the buffers of their Schedule, on the CPU: known before a step runs.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/model/model_config.h"
#include "engine/plan/memory.h"
#include "engine/plan/schedule.h"

namespace shardscope::footprint {

// Most that a transport's call takes for itself: Transport::ScratchBytes(). Without a function:
// nothing.
using ScratchBytes =
    std::function<int64_t(plan::OpKind kind, int64_t payload_bytes, int64_t pieces)>;

// Never less than what CpuWork reports. On a GPU an estimate: its kernels need other memory for
// themselves, and the allocator that hands it out is not asked. `batch`: samples of a rank and
// micro-batch. The result borrows `schedule`.
plan::Unlisted UnlistedMemory(const model::ModelConfig& model, int64_t batch,
                              const plan::Schedule& schedule, ScratchBytes scratch);

// Most that a rank's copy of its state takes, from which checkpoints are written: of what it holds
// of `unit`. Where several ranks hold the same, each copies a part. `is_rooted`: rank 0 alone holds
// any.
int64_t CheckpointCopyBytes(const plan::Schedule& schedule, const plan::Unit& unit,
                            plan::DType master, bool is_rooted);

// The same with that copy, which lies beside the parameters that ranks keep. What is offloaded is
// copied in the host's memory too, and in no total.
plan::Unlisted WithCheckpointCopy(plan::Unlisted unlisted, const plan::Schedule& schedule,
                                  plan::DType master);

}  // namespace shardscope::footprint
