// MemoryPool: the memory of one rank's large buffers. Freed blocks are kept by size and handed out
// again, because mapping fresh pages in every step costs more than the collectives they serve.
//
// Threads: any (a rank's streams share it).
#pragma once

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace shardscope::runtime {

// Blocks, and parameters inside them, start at multiples of this: vector instructions want it, and
// results of the matrix library may depend on it.
inline constexpr size_t kAlignment = 64;

class MemoryPool {
 public:
  // With `poison` (tests): new blocks are full of NaNs, and freed blocks are pages that nobody may
  // touch, never reused.
  explicit MemoryPool(bool poison) : poison_(poison) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Contents are undefined. Throws std::bad_alloc.
  std::byte* Allocate(size_t bytes);
  void Free(std::byte* block, size_t bytes);

  // Gives kept blocks back to the system (another Schedule needs other sizes).
  void Trim();

  // Bytes that the pool holds from the system, kept blocks included.
  size_t held_bytes() const;

 private:
  const bool poison_;
  mutable std::mutex mutex_;
  size_t held_bytes_ = 0;                           // guarded by mutex_
  std::map<size_t, std::vector<std::byte*>> kept_;  // guarded by mutex_; by size
};

}  // namespace shardscope::runtime
