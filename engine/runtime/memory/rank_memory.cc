#include "engine/runtime/memory/rank_memory.h"

#include <algorithm>
#include <stdexcept>

#include "trace/base/units.h"

namespace shardscope::runtime {

void RankMemory::Add(plan::MemoryCategory category, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (limit_bytes_ > 0 && total_ + bytes > limit_bytes_) {
    throw std::runtime_error("out of memory: rank " + std::to_string(rank_) + " holds " +
                             FormatBytes(total_) + " and needs " + FormatBytes(bytes) +
                             " more, engine.memory_limit is " + FormatBytes(limit_bytes_));
  }
  live_[static_cast<size_t>(category)] += bytes;
  total_ += bytes;
  peak_ = std::max(peak_, total_);
}

void RankMemory::Remove(plan::MemoryCategory category, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  live_[static_cast<size_t>(category)] -= bytes;
  total_ -= bytes;
}

int64_t RankMemory::live_bytes(plan::MemoryCategory category) const {
  const std::lock_guard lock(mutex_);
  return live_[static_cast<size_t>(category)];
}

int64_t RankMemory::live_bytes() const {
  const std::lock_guard lock(mutex_);
  return total_;
}

int64_t RankMemory::peak_bytes() const {
  const std::lock_guard lock(mutex_);
  return peak_;
}

}  // namespace shardscope::runtime
