// BufferPool: the memory into which CUPTI writes its records.
//
// CUPTI asks for a buffer and hands it back full on threads of the program that is traced, inside
// their CUDA calls. Neither may lock, allocate or wait: both are one exchange of a pointer. The
// decode thread empties, zeroes and returns the buffers, and makes new ones up to the bound. When
// none is free CUPTI drops its records and counts them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace shardscope::cupti {

class BufferPool {
 public:
  // A buffer that CUPTI filled, in a list of them.
  struct Full {
    uint8_t* data = nullptr;
    size_t valid_bytes = 0;
  };

  BufferPool(size_t buffer_bytes, size_t max_buffers);

  // Any thread; never waits. Null if none is free, which is counted.
  uint8_t* Take();
  // Any thread; never waits. `data` came from Take().
  void GiveBack(uint8_t* data, size_t valid_bytes);

  // Decode thread: what was given back since the last call, oldest first.
  std::vector<Full> TakeFull();
  // Decode thread: zeroes the buffer, so that CUPTI need not, and makes it free again.
  void Recycle(const Full& full);
  // Decode thread: makes new buffers until `spare` are free, or the bound is reached.
  void Refill(size_t spare);

  size_t buffer_bytes() const { return buffer_bytes_; }
  int64_t times_empty() const { return times_empty_.load(std::memory_order_relaxed); }

 private:
  struct Buffer {
    // Its own address, then the bytes that CUPTI fills (8-aligned, as it asks).
    std::unique_ptr<uint64_t[]> words;
    size_t valid_bytes = 0;
    Buffer* next = nullptr;  // in the list of full ones

    uint8_t* data() const { return reinterpret_cast<uint8_t*>(words.get() + 1); }
  };

  static Buffer* OwnerOf(const uint8_t* data);

  const size_t buffer_bytes_;
  size_t num_buffers_ = 0;                   // decode thread
  std::vector<Buffer> buffers_;              // its size never changes
  std::vector<std::atomic<uint8_t*>> free_;  // by buffer; null: not free
  std::atomic<Buffer*> full_ = nullptr;      // newest first
  std::atomic<int64_t> times_empty_ = 0;
};

}  // namespace shardscope::cupti
