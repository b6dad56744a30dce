#include "engine/runtime/memory/memory_pool.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <new>
#include <stdexcept>
#include <string>

#include "engine/footprint/out_of_memory.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/units.h"

namespace shardscope::runtime {
namespace {

constexpr int kNanByte = 0xff;                // 0xffff..: NaN in fp32, fp64, bf16 and fp16
constexpr size_t kHugePageBytes = 2UL << 20;  // x86-64 and arm64 with 4 kB pages

// A mapping of its own, so that giving it back really lowers the process's resident memory.
std::byte* MapPages(size_t bytes) {
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) throw std::bad_alloc();
  // Refused where huge pages are off; that costs speed only.
  if (bytes >= kHugePageBytes) static_cast<void>(madvise(pages, bytes, MADV_HUGEPAGE));
  return static_cast<std::byte*>(pages);
}

std::byte* MallocAligned(size_t bytes) {
  void* block = nullptr;
  if (posix_memalign(&block, kAlignment, bytes) != 0) throw std::bad_alloc();
  return static_cast<std::byte*>(block);
}

}  // namespace

MemoryPool::~MemoryPool() { Trim(); }

void MemoryPool::Count(int64_t bytes) {
  const int64_t before = allocated_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  if (options_.limit_bytes > 0 && before + bytes > options_.limit_bytes) {
    allocated_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
    std::string text =
        fmt::format(footprint::out_of_memory::kPool, options_.rank, FormatBytes(before),
                    FormatBytes(bytes), FormatBytes(options_.limit_bytes));
    if (options_.explain) text += ". " + options_.explain(before + bytes);
    throw std::runtime_error(text);
  }
  int64_t peak = peak_bytes_.load(std::memory_order_relaxed);
  while (peak < before + bytes && !peak_bytes_.compare_exchange_weak(peak, before + bytes)) {
  }
}

std::byte* MemoryPool::TakeKept(size_t bytes) {
  const MutexLock lock(mutex_);
  const auto kept = kept_.find(bytes);
  if (kept == kept_.end() || kept->second.blocks.empty()) return nullptr;
  std::byte* block = kept->second.blocks.back();
  kept->second.blocks.pop_back();
  kept->second.num_unused = std::min(kept->second.num_unused, kept->second.blocks.size());
  return block;
}

std::byte* MemoryPool::Allocate(size_t bytes, size_t front, Contents contents) {
  SHARDSCOPE_CHECK(front % kAlignment == 0);
  Count(static_cast<int64_t>(bytes));
  const size_t size = std::max(bytes + front, kAlignment);
  std::byte* block = nullptr;
  bool is_cleared = false;
  try {
    if (!IsMapped(size, front)) {
      block = MallocAligned(size);
    } else if (!options_.poison) {
      block = TakeKept(size);
    }
    if (block == nullptr) {
      block = MapPages(size);
      is_cleared = !options_.poison;
      if (options_.poison) std::memset(block, kNanByte, size);
      reserved_bytes_ += static_cast<int64_t>(size);
    } else if (!IsMapped(size, front)) {
      reserved_bytes_ += static_cast<int64_t>(size);
    }
  } catch (...) {
    allocated_bytes_ -= static_cast<int64_t>(bytes);
    throw;
  }
  if (contents == Contents::kZeros && !is_cleared) std::memset(block, 0, size);
  return block + front;
}

void MemoryPool::Free(std::byte* block, size_t bytes, size_t front) {
  allocated_bytes_.fetch_sub(static_cast<int64_t>(bytes), std::memory_order_relaxed);
  block -= front;
  const size_t size = std::max(bytes + front, kAlignment);
  if (!IsMapped(size, front)) {
    std::free(block);
    reserved_bytes_ -= static_cast<int64_t>(size);
    return;
  }
  if (options_.poison) {
    // The pages' contents go back to the system, their addresses stay forbidden.
    SHARDSCOPE_CHECK(madvise(block, size, MADV_DONTNEED) == 0);
    SHARDSCOPE_CHECK(mprotect(block, size, PROT_NONE) == 0);
    reserved_bytes_ -= static_cast<int64_t>(size);
  }
  const MutexLock lock(mutex_);
  kept_[size].blocks.push_back(block);
}

void MemoryPool::Release(size_t bytes, std::byte* block) {
  SHARDSCOPE_CHECK(munmap(block, bytes) == 0);
  if (!options_.poison) reserved_bytes_ -= static_cast<int64_t>(bytes);
}

void MemoryPool::EndStep() {
  const MutexLock lock(mutex_);
  if (options_.poison || ++steps_in_window_ < kStepsKept) return;
  steps_in_window_ = 0;
  for (auto& [bytes, kept] : kept_) {
    const auto unused_end = kept.blocks.begin() + static_cast<std::ptrdiff_t>(kept.num_unused);
    for (auto block = kept.blocks.begin(); block != unused_end; ++block) Release(bytes, *block);
    kept.blocks.erase(kept.blocks.begin(), unused_end);
    kept.num_unused = kept.blocks.size();
  }
}

void MemoryPool::Trim() {
  const MutexLock lock(mutex_);
  for (const auto& [bytes, kept] : kept_) {
    for (std::byte* block : kept.blocks) Release(bytes, block);
  }
  kept_.clear();
}

int64_t ResidentBytes() {
  int64_t total_pages = 0;
  int64_t resident_pages = 0;
  std::ifstream file("/proc/self/statm");
  if (!(file >> total_pages >> resident_pages)) return -1;
  return resident_pages * sysconf(_SC_PAGESIZE);
}

}  // namespace shardscope::runtime
