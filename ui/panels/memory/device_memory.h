// What lies over the stack of a rank with a GPU: what its allocator holds besides, what NCCL and
// others in the process took from the driver, what else of the GPU is in use, and what was asked to
// be freed but still is in use. Logic only; no ImGui.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/panels/memory/memory_stack.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Between two heights, over some columns.
struct DeviceBand {
  enum class Kind : uint8_t {
    kReserved,  // held by the allocator, in no tensor
    kNccl,      // taken from the driver during a call of NCCL
    kOthers,    // taken from the driver, not by the allocator and not by NCCL as far as is known
    kTracer,    // what CUPTI says that it takes at least for its records
    kContext,   // in use, but taken by no call: contexts, other processes on the GPU
    kFreeGap    // freed by the host, still used by the GPU
  };
  Kind kind = Kind::kReserved;
  float x0 = 0;
  float x1 = 0;
  int64_t low_bytes = 0;
  int64_t high_bytes = 0;
};

struct DeviceMemory {
  std::vector<DeviceBand> bands;
  int64_t max_bytes = 0;     // of the highest band
  int64_t driver_bytes = 0;  // most that the process held in view; 0 if the driver told nothing
  int64_t reserved_bytes = 0;
  int64_t nccl_bytes = 0;
  int64_t tracer_bytes = 0;
  int64_t used_bytes = 0;  // of the GPU, by whomever; 0 if nobody asked
  int64_t gap_bytes = 0;   // most at once
};

// What CUPTI takes at least of each GPU's memory in this run; 0: it does not tell, or was not used.
int64_t TracerBytes(const query::Snapshot& snapshot);

// Whose memory is what, beyond what the rows say. `of_nccl` may be empty.
struct DeviceOwners {
  const std::vector<bool>& of_nccl;
  int64_t tracer_bytes = 0;
};
// `live` and `issued`: the stacks by execution and by issue; `issued` may be empty.
struct MemoryStacks {
  const MemoryStack& live;
  const MemoryStack& issued;
};
DeviceMemory MakeDeviceMemory(const query::RankRows& rows, const DeviceOwners& owners,
                              const MemoryStacks& stacks, const timeline::Axis& axis,
                              int64_t end_ns);

}  // namespace shardscope::panels
