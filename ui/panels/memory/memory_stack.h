// Stacked memory as boxes in pixels, and what lies over the stack of a rank with a GPU: what its
// allocator holds besides, what NCCL and others in the process took from the driver, what else of
// the GPU is in use, and what was asked to be freed but still is in use. Logic only; no ImGui.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/analysis/memory/memory.h"
#include "trace/query/snapshot.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// From the bottom: what stays, then what comes and goes, and on top what the Schedule does not
// predict. The host's memory is not the rank's.
inline constexpr std::array<query::MemoryCategory, query::kNumMemoryCategories - 1> kStackOrder = {
    query::MemoryCategory::kParameterShard,     query::MemoryCategory::kOptimizer,
    query::MemoryCategory::kGradientShard,      query::MemoryCategory::kOther,
    query::MemoryCategory::kActivation,         query::MemoryCategory::kGradient,
    query::MemoryCategory::kUnshardedParameter, query::MemoryCategory::kCommunicationBuffer,
    query::MemoryCategory::kTemporary,
};

// One category between two changes of its lower or upper edge.
struct StackBox {
  float x0 = 0;
  float x1 = 0;
  int64_t low_bytes = 0;
  int64_t high_bytes = 0;
  query::MemoryCategory category = query::MemoryCategory::kOther;
};

struct MemoryStack {
  std::vector<StackBox> boxes;
  int64_t max_bytes = 0;  // largest total in view
};

// A pixel column shows the largest total of the points in it, so that no short peak is lost; a
// column without points shows what was live before. Nothing is drawn after `end_ns`, the end of
// what is known.
MemoryStack MakeStack(const analysis::MemoryTimeline& memory, const timeline::Axis& axis,
                      int64_t end_ns);

// Between two heights, over some columns.
struct DeviceBand {
  enum class Kind : uint8_t {
    kReserved,  // held by the allocator, in no tensor
    kNccl,      // taken from the driver during a call of NCCL
    kOthers,    // taken from the driver, not by the allocator and not by NCCL as far as is known
    kTracer,    // what CUPTI takes at least for its records, by its own account
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
  int64_t driver_bytes = 0;  // most that the process held in view; 0 without rows of the driver
  int64_t reserved_bytes = 0;
  int64_t nccl_bytes = 0;
  int64_t tracer_bytes = 0;
  int64_t used_bytes = 0;  // of the GPU, by all processes; 0 if it was not read
  int64_t gap_bytes = 0;   // most at once
};

// What CUPTI takes at least of each GPU's memory in this run; 0: not known, or CUPTI was not used.
int64_t TracerBytes(const query::Snapshot& snapshot);

// Owners of memory, beyond what the rows have. `of_nccl` may be empty.
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
