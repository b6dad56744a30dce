#include "engine/runtime/memory/temporary_memory.h"

#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>

namespace shardscope::runtime {
namespace {

// Since the last TemporaryMemory of this thread began. A tensor that another thread frees is
// counted there, where it does not matter: ops free their own temporaries.
thread_local int64_t t_live_bytes = 0;
thread_local int64_t t_peak_bytes = 0;

// In front of every block, so that its size is known when it is freed. As long as LibTorch's
// alignment, which the block keeps.
struct alignas(64) Header {
  size_t bytes;
};

// LibTorch's own CPU allocator is posix_memalign and free as well (c10/core/impl/alloc_cpu.cpp).
class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) return {nullptr, nullptr, &Delete, c10::Device(c10::kCPU)};
    void* memory = nullptr;
    if (posix_memalign(&memory, alignof(Header), sizeof(Header) + bytes) != 0) {
      throw std::bad_alloc();
    }
    Header* header = new (memory) Header{bytes};
    t_live_bytes += static_cast<int64_t>(bytes);
    t_peak_bytes = std::max(t_peak_bytes, t_live_bytes);
    void* data = header + 1;
    return {data, data, &Delete, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Delete; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  static void Delete(void* data) {
    if (data == nullptr) return;
    Header* header = static_cast<Header*>(data) - 1;
    t_live_bytes -= static_cast<int64_t>(header->bytes);
    std::free(header);
  }
};

}  // namespace

TemporaryMemory::TemporaryMemory() { t_live_bytes = t_peak_bytes = 0; }

int64_t TemporaryMemory::Finish() const {
  return t_peak_bytes - std::max<int64_t>(0, t_live_bytes);
}

void TemporaryMemory::Install() {
  constexpr uint8_t kBeforeOthers = 100;
  static std::once_flag once;
  std::call_once(once, [] {
    // Lives as long as the process: tensors may be freed by static destructors.
    c10::SetCPUAllocator(new CountingAllocator(), kBeforeOthers);
  });
}

}  // namespace shardscope::runtime
