// What ranks take beside the buffers of their Schedule, on the CPU: known before a step runs.
#pragma once

#include "engine/plan/memory.h"
#include "engine/runtime/ranks/job.h"
#include "engine/transport/transport.h"

namespace shardscope::runtime {

// Never less than what CpuWork reports. On a GPU an estimate: its kernels need other memory for
// themselves, and the allocator that hands it out is not asked. The result borrows both arguments.
plan::Unlisted UnlistedMemory(const Job& job, const plan::Schedule& schedule,
                              const transport::Transport& transport);

}  // namespace shardscope::runtime
