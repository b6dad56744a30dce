// SpscRing: a bounded queue from one thread to one other, without locks. The producer never waits:
// a full ring refuses the record. Slots are not constructed until used, so untouched memory stays
// untouched.
#pragma once

#include <atomic>
#include <bit>
#include <cstddef>
#include <memory>

#include "trace/base/check.h"

namespace shardscope::record {

template <typename T>
class SpscRing {
 public:
  // `capacity` is rounded up to a power of two.
  explicit SpscRing(size_t capacity)
      : mask_(std::bit_ceil(capacity) - 1),
        slots_(std::make_unique_for_overwrite<T[]>(mask_ + 1)) {}

  size_t capacity() const { return mask_ + 1; }

  // Producer. false: full.
  bool TryPush(const T& value) {
    const size_t tail = tail_.load(std::memory_order_relaxed);
    if (tail - cached_head_ > mask_) {
      cached_head_ = head_.load(std::memory_order_acquire);
      if (tail - cached_head_ > mask_) return false;
    }
    slots_[tail & mask_] = value;
    tail_.store(tail + 1, std::memory_order_release);
    return true;
  }

  // Producer. At least the records that wait now.
  size_t WaitingAtMost() const { return tail_.load(std::memory_order_relaxed) - cached_head_; }
  // Producer. The records that wait now.
  size_t Waiting() {
    cached_head_ = head_.load(std::memory_order_acquire);
    return WaitingAtMost();
  }

  // Consumer. How many records can be read; Peek(0) is the oldest.
  size_t NumReadable() const {
    return tail_.load(std::memory_order_acquire) - head_.load(std::memory_order_relaxed);
  }
  const T& Peek(size_t index) const {
    return slots_[(head_.load(std::memory_order_relaxed) + index) & mask_];
  }
  void Pop(size_t count) {
    SHARDSCOPE_CHECK(count <= NumReadable());
    head_.store(head_.load(std::memory_order_relaxed) + count, std::memory_order_release);
  }

 private:
  const size_t mask_;
  const std::unique_ptr<T[]> slots_;
  // Each side writes its own cache line. The counters only grow; slots are counter & mask_.
  alignas(64) std::atomic<size_t> tail_ = 0;  // written by the producer
  size_t cached_head_ = 0;                    // producer's last look at head_
  alignas(64) std::atomic<size_t> head_ = 0;  // written by the consumer
};

}  // namespace shardscope::record
