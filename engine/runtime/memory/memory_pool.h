// MemoryPool: the memory of one rank. Buffers of the Schedule and LibTorch's tensors come from here
// and are counted to the byte. Freed blocks are kept by size and handed out again, because mapping
// fresh pages in every step costs more than the collectives they serve; what no recent step used
// goes back to the system.
//
// Threads: any (a rank's streams share it).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/footprint/unit_layout.h"
#include "trace/base/mutex.h"

namespace shardscope::runtime {

using footprint::kAlignment;

class MemoryPool {
 public:
  // Smaller blocks are left to the C library, which keeps them cheaply itself.
  static constexpr size_t kLargeBytes = 64 << 10;
  // Steps after which an unused block is given back: long enough that a buffer which the timing of
  // one step spared is still there for the next.
  static constexpr int kStepsKept = 4;

  struct Options {
    int rank = 0;             // for messages
    int64_t limit_bytes = 0;  // of allocated_bytes(); 0: none
    // What the message that the limit would be passed says besides; `wanted_bytes`: what would be
    // allocated then.
    std::function<std::string(int64_t wanted_bytes)> explain;
    // Tests: new blocks are full of NaNs, and freed blocks are pages that may not be touched, never
    // reused.
    bool poison = false;
  };
  explicit MemoryPool(Options options) : options_(std::move(options)) {}
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  // Zeros of pages that are new cost nothing until the pages are used: only then the system makes
  // and clears them.
  enum class Contents { kUndefined, kZeros };

  // `front` more bytes (a multiple of kAlignment) lie before the block for the caller's own use;
  // they are not counted. Throws std::runtime_error if the limit would be passed, std::bad_alloc if
  // the system has no more.
  std::byte* Allocate(size_t bytes, size_t front = 0, Contents contents = Contents::kUndefined);
  // With the same sizes.
  void Free(std::byte* block, size_t bytes, size_t front = 0);

  // After each step: returns blocks that none of the last kStepsKept to twice as many steps used.
  void EndStep();
  // Returns all kept blocks (another Schedule needs other sizes).
  void Trim();

  int64_t allocated_bytes() const { return allocated_bytes_; }  // asked for and not yet freed
  // The highest allocated_bytes() since the last call. While nothing is allocated.
  int64_t TakePeakBytes() { return peak_bytes_.exchange(allocated_bytes_); }
  int64_t reserved_bytes() const { return reserved_bytes_; }  // from the system, kept ones too

 private:
  // Blocks of one size. The last freed is the first to be handed out again, so the blocks at the
  // bottom are those that are not needed.
  struct Kept {
    std::vector<std::byte*> blocks;
    size_t num_unused = 0;  // at the bottom, not touched since the window of steps began
  };

  void Count(int64_t bytes);
  std::byte* TakeKept(size_t bytes);  // null if there is none
  void Release(size_t bytes, std::byte* block);
  // Of a block with its front. Tensors (which have one) are counted references: only other blocks
  // can be read after they were freed, and only they need pages of their own in tests.
  bool IsMapped(size_t bytes, size_t front) const {
    return bytes >= kLargeBytes || (options_.poison && front == 0);
  }

  const Options options_;
  std::atomic<int64_t> allocated_bytes_{0};
  std::atomic<int64_t> peak_bytes_{0};
  std::atomic<int64_t> reserved_bytes_{0};
  Mutex mutex_;
  std::map<size_t, Kept> kept_ GUARDED_BY(mutex_);  // by size
  int steps_in_window_ GUARDED_BY(mutex_) = 0;
};

// Bytes of this process in physical memory now (/proc/self/statm); -1 if the system does not say.
int64_t ResidentBytes();

}  // namespace shardscope::runtime
