#include "trace/record/cupti/buffer_pool.h"

#include <algorithm>
#include <cstring>

#include "trace/base/check.h"

namespace shardscope::cupti {

BufferPool::BufferPool(size_t buffer_bytes, size_t max_buffers)
    : buffer_bytes_(buffer_bytes), buffers_(max_buffers), free_(max_buffers) {
  SHARDSCOPE_CHECK(buffer_bytes % sizeof(uint64_t) == 0 && max_buffers > 0);
}

uint8_t* BufferPool::Take() {
  for (std::atomic<uint8_t*>& slot : free_) {
    if (slot.load(std::memory_order_relaxed) == nullptr) continue;
    if (uint8_t* data = slot.exchange(nullptr, std::memory_order_acquire)) return data;
  }
  times_empty_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

BufferPool::Buffer* BufferPool::OwnerOf(const uint8_t* data) {
  Buffer* owner = nullptr;
  std::memcpy(&owner, data - sizeof(uint64_t), sizeof owner);
  return owner;
}

void BufferPool::GiveBack(uint8_t* data, size_t valid_bytes) {
  Buffer* buffer = OwnerOf(data);
  buffer->valid_bytes = std::min(valid_bytes, buffer_bytes_);
  buffer->next = full_.load(std::memory_order_relaxed);
  while (!full_.compare_exchange_weak(buffer->next, buffer, std::memory_order_release,
                                      std::memory_order_relaxed)) {
  }
}

std::vector<BufferPool::Full> BufferPool::TakeFull() {
  std::vector<Full> taken;
  for (Buffer* buffer = full_.exchange(nullptr, std::memory_order_acquire); buffer != nullptr;
       buffer = buffer->next) {
    taken.push_back({buffer->data(), buffer->valid_bytes});
  }
  std::reverse(taken.begin(), taken.end());
  return taken;
}

// All of it: CUPTI was promised zeroes, and what it wrote and then did not count as valid (a record
// that had not ended) would otherwise be part of the next one. 2 MiB take 0.1 ms, here and not on a
// thread of the program.
void BufferPool::Recycle(const Full& full) {
  std::memset(full.data, 0, buffer_bytes_);
  const auto index = static_cast<size_t>(OwnerOf(full.data) - buffers_.data());
  free_[index].store(full.data, std::memory_order_release);
}

void BufferPool::Refill(size_t spare) {
  auto num_free = static_cast<size_t>(std::count_if(
      free_.begin(), free_.end(), [](const auto& slot) { return slot.load() != nullptr; }));
  for (; num_free < spare && num_buffers_ < buffers_.size(); ++num_free, ++num_buffers_) {
    Buffer& buffer = buffers_[num_buffers_];
    buffer.words = std::make_unique<uint64_t[]>(1 + buffer_bytes_ / sizeof(uint64_t));
    const Buffer* self = &buffer;
    std::memcpy(buffer.words.get(), &self, sizeof self);
    free_[num_buffers_].store(buffer.data(), std::memory_order_release);
  }
}

}  // namespace shardscope::cupti
