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

}  // namespace shardscope::footprint
