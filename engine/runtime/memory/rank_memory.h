// RankMemory: what one rank holds, by category, and its peak. Counts bytes as they are taken and
// given back (the execution ledger); refuses to go beyond engine.memory_limit.
//
// Threads: any.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

#include "engine/plan/op.h"

namespace shardscope::runtime {

class RankMemory {
 public:
  // `limit_bytes` 0: none.
  RankMemory(int rank, int64_t limit_bytes) : rank_(rank), limit_bytes_(limit_bytes) {}

  // Throws std::runtime_error if the limit would be passed.
  void Add(plan::MemoryCategory category, int64_t bytes);
  void Remove(plan::MemoryCategory category, int64_t bytes);

  int64_t live_bytes(plan::MemoryCategory category) const;
  int64_t live_bytes() const;
  int64_t peak_bytes() const;

 private:
  const int rank_;
  const int64_t limit_bytes_;
  mutable std::mutex mutex_;  // guards all below
  std::array<int64_t, plan::kNumMemoryCategories> live_{};
  int64_t total_ = 0;
  int64_t peak_ = 0;
};

}  // namespace shardscope::runtime
