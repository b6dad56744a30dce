#include "engine/runtime/memory/memory_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <cstring>
#include <new>

#include "trace/base/check.h"

namespace shardscope::runtime {
namespace {

constexpr int kNanByte = 0xff;  // 0xffff..: NaN in fp32, fp64 and bf16

std::byte* MapPages(size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  std::memset(pages, kNanByte, bytes);
  return static_cast<std::byte*>(pages);
}

}  // namespace

MemoryPool::~MemoryPool() { Trim(); }

std::byte* MemoryPool::Allocate(size_t bytes) {
  if (bytes == 0) bytes = kAlignment;
  {
    const std::lock_guard lock(mutex_);
    const auto kept = kept_.find(bytes);
    if (!poison_ && kept != kept_.end() && !kept->second.empty()) {
      std::byte* block = kept->second.back();
      kept->second.pop_back();
      return block;
    }
    held_bytes_ += bytes;
  }
  if (poison_) return MapPages(bytes);
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, bytes) != 0) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

void MemoryPool::Free(std::byte* block, size_t bytes) {
  if (bytes == 0) bytes = kAlignment;
  if (poison_) {
    // The pages' contents go back to the system, their addresses stay forbidden.
    SHARDSCOPE_CHECK(madvise(block, bytes, MADV_DONTNEED) == 0);
    SHARDSCOPE_CHECK(mprotect(block, bytes, PROT_NONE) == 0);
  }
  const std::lock_guard lock(mutex_);
  if (poison_) held_bytes_ -= bytes;
  kept_[bytes].push_back(block);
}

void MemoryPool::Trim() {
  const std::lock_guard lock(mutex_);
  for (const auto& [bytes, blocks] : kept_) {
    for (std::byte* block : blocks) {
      if (poison_) {
        munmap(block, bytes);
      } else {
        std::free(block);
        held_bytes_ -= bytes;
      }
    }
  }
  kept_.clear();
}

size_t MemoryPool::held_bytes() const {
  const std::lock_guard lock(mutex_);
  return held_bytes_;
}

}  // namespace shardscope::runtime
