// What lies over the stack of a rank with a GPU: what its allocator holds besides, what else the
// process took from the driver, and what was asked to be freed but still is in use. Logic only; no
// ImGui.
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
    kOthers,    // taken from the driver, not by the allocator: NCCL, the context, the recorder
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
  int64_t gap_bytes = 0;  // most at once
};

// `live` and `issued`: the stacks by execution and by issue; `issued` may be empty.
DeviceMemory MakeDeviceMemory(const query::RankRows& rows, const MemoryStack& live,
                              const MemoryStack& issued, const timeline::Axis& axis,
                              int64_t end_ns);

}  // namespace shardscope::panels
