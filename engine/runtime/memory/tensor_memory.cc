#include "engine/runtime/memory/tensor_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <utility>

namespace shardscope::runtime {
namespace {

thread_local const std::shared_ptr<MemoryPool>* t_pool = nullptr;

// Since the last TemporaryMemory of this thread began. A tensor that another thread frees is
// counted there, where it does not matter: ops free their own temporaries.
thread_local int64_t t_live_bytes = 0;
thread_local int64_t t_peak_bytes = 0;

std::atomic<int64_t> unscoped_bytes{0};

// In front of every block, so that its size and origin are known when it is freed. As long as
// LibTorch's alignment, which the block keeps.
struct alignas(kAlignment) Header {
  size_t bytes;
  // Shared, because a tensor may outlive its rank.
  std::shared_ptr<MemoryPool> pool;  // null: from malloc
};

std::byte* AllocateUnscoped(size_t bytes, MemoryPool::Contents contents) {
  void* memory = nullptr;
  if (posix_memalign(&memory, kAlignment, sizeof(Header) + bytes) != 0) throw std::bad_alloc();
  unscoped_bytes += static_cast<int64_t>(bytes);
  std::byte* const data = static_cast<std::byte*>(memory) + sizeof(Header);
  if (contents == MemoryPool::Contents::kZeros) std::memset(data, 0, bytes);
  return data;
}

// `bytes` are not 0.
std::byte* AllocateTensor(size_t bytes, MemoryPool::Contents contents) {
  std::byte* data = t_pool != nullptr ? (*t_pool)->Allocate(bytes, sizeof(Header), contents)
                                      : AllocateUnscoped(bytes, contents);
  new (data - sizeof(Header)) Header{bytes, t_pool != nullptr ? *t_pool : nullptr};
  t_live_bytes += static_cast<int64_t>(bytes);
  t_peak_bytes = std::max(t_peak_bytes, t_live_bytes);
  return data;
}

void FreeTensor(void* data) {
  if (data == nullptr) return;
  Header* header = static_cast<Header*>(data) - 1;
  const size_t bytes = header->bytes;
  const std::shared_ptr<MemoryPool> pool = std::move(header->pool);
  header->~Header();
  t_live_bytes -= static_cast<int64_t>(bytes);
  if (pool != nullptr) {
    pool->Free(static_cast<std::byte*>(data), bytes, sizeof(Header));
  } else {
    unscoped_bytes -= static_cast<int64_t>(bytes);
    std::free(header);
  }
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    std::byte* const data =
        bytes == 0 ? nullptr : AllocateTensor(bytes, MemoryPool::Contents::kUndefined);
    return {data, data, &FreeTensor, c10::Device(c10::kCPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &FreeTensor; }
  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

void InstallTensorMemory() {
  constexpr uint8_t kBeforeOthers = 100;
  static std::once_flag once;
  std::call_once(once, [] {
    // Lives as long as the process: tensors may be freed by static destructors.
    c10::SetCPUAllocator(new CountingAllocator(), kBeforeOthers);
  });
}

TensorScope::TensorScope(const std::shared_ptr<MemoryPool>& pool)
    : before_(std::exchange(t_pool, &pool)) {}
TensorScope::~TensorScope() { t_pool = before_; }

at::Tensor LateZeros(int64_t elements, at::ScalarType type) {
  const size_t bytes = static_cast<size_t>(elements) * c10::elementSize(type);
  if (bytes == 0) return at::empty({elements}, type);
  return at::from_blob(AllocateTensor(bytes, MemoryPool::Contents::kZeros), {elements}, &FreeTensor,
                       type);
}

// Declared in tensor_memory_test_util.h, for tests alone.
int64_t UnscopedTensorBytes() { return unscoped_bytes; }

TemporaryMemory::TemporaryMemory() { t_live_bytes = t_peak_bytes = 0; }

int64_t TemporaryMemory::Finish() const {
  return t_peak_bytes - std::max<int64_t>(0, t_live_bytes);
}

}  // namespace shardscope::runtime
