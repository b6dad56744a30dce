// What tests compare of a rank on the CPU: its allocators with its ledger, and where a buffer lies.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/runtime/ranks/cpu_work.h"

namespace shardscope::runtime {

class CpuWorkInside {
 public:
  // What the ops and units of the rank say that they hold.
  static const RankMemory& Ledger(const CpuWork& work) { return work.memory_; }
  // What came from the allocator of offloaded memory and was not freed.
  static int64_t HostBytes(const CpuWork& work) { return work.host_pool_->allocated_bytes(); }
  // Where a buffer lies now; null if it is a tensor or not there.
  static const std::byte* Block(const CpuWork& work, plan::BufferId id) {
    return work.blocks_[static_cast<size_t>(id)];
  }
};

}  // namespace shardscope::runtime
