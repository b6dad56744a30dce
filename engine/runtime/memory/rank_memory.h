// RankMemory: what one rank holds, by category, at execution times. Counted from the ops' side:
// MemoryPool counts the same bytes where they are allocated, and the two must agree.
//
// Threads: any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "engine/plan/op.h"

namespace shardscope::runtime {

class RankMemory {
 public:
  // Signed.
  void Add(plan::MemoryCategory category, int64_t bytes) {
    live_[static_cast<size_t>(category)].fetch_add(bytes, std::memory_order_relaxed);
  }

  int64_t live_bytes(plan::MemoryCategory category) const {
    return live_[static_cast<size_t>(category)].load(std::memory_order_relaxed);
  }
  // Of all but what is in the host's memory.
  int64_t live_bytes() const {
    int64_t sum = 0;
    for (const std::atomic<int64_t>& bytes : live_) sum += bytes.load(std::memory_order_relaxed);
    return sum - live_bytes(plan::MemoryCategory::kHost);
  }

 private:
  std::array<std::atomic<int64_t>, plan::kNumMemoryCategories> live_{};
};

}  // namespace shardscope::runtime
