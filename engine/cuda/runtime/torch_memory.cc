#include "engine/cuda/runtime/torch_memory.h"

#include <c10/core/CachingDeviceAllocator.h>

#include <exception>
#include <unordered_map>

#include "engine/torch_ranges/torch_allocator.h"
#include "trace/base/mutex.h"

namespace shardscope::cuda {
namespace {

using torch_allocator::TraceEntry;

constexpr int kNoRank = -1;
thread_local int t_rank = kNoRank;

struct Block {
  int64_t bytes = 0;  // asked for
  int rank = kNoRank;
};

// Lives as long as the process: the allocator may tell of frees by static destructors.
struct Blocks {
  Mutex mutex;  // taken under the lock of a device's allocator
  std::unordered_map<size_t, Block> by_address GUARDED_BY(mutex);
  std::unordered_map<int, int64_t> bytes_of_rank GUARDED_BY(mutex);

  void OnEntry(const TraceEntry& entry) {
    const MutexLock lock(mutex);
    if (entry.action_ == TraceEntry::ALLOC) {
      const Block block{static_cast<int64_t>(entry.size_), t_rank};
      by_address[entry.addr_] = block;
      bytes_of_rank[block.rank] += block.bytes;
    } else if (entry.action_ == TraceEntry::FREE_REQUESTED) {
      const auto found = by_address.find(entry.addr_);
      if (found == by_address.end()) return;
      bytes_of_rank[found->second.rank] -= found->second.bytes;
      by_address.erase(found);
    }
  }
};
Blocks& TheBlocks() {
  static Blocks* const kBlocks = new Blocks;
  return *kBlocks;
}

// An allocation must not fail by our book-keeping: what is missed shows as a difference.
void OnEntry(const TraceEntry& entry) {
  try {
    TheBlocks().OnEntry(entry);
  } catch (const std::exception&) {
  }
}

std::string Attach() {
  std::string why_not;
  torch_allocator::CUDAAllocator* const allocator = torch_allocator::Find(&why_not);
  return allocator == nullptr ? why_not : torch_allocator::Listen(allocator, &OnEntry);
}

}  // namespace

TorchMemory::TorchMemory(const RuntimeApi& api) : api_(api), why_not_(Attach()) {}

void TorchMemory::EnterThread(int rank) { t_rank = rank; }

int64_t TorchMemory::HandedOut(int rank) const {
  if (!why_not_.empty()) return -1;
  Blocks& blocks = TheBlocks();
  const MutexLock lock(blocks.mutex);
  const auto found = blocks.bytes_of_rank.find(rank);
  return found == blocks.bytes_of_rank.end() ? 0 : found->second;
}

int64_t TorchMemory::Reserved(c10::Device device) const {
  const auto stats = c10::getDeviceAllocator(device.type())->getDeviceStats(device.index());
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  return stats.reserved_bytes[all].current;
}

int64_t TorchMemory::InUse() const {
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  if (api_.MemGetInfo(&free_bytes, &total_bytes) != kSuccess) {
    api_.GetLastError();  // or the next call would take it for its own
    return -1;
  }
  return static_cast<int64_t>(total_bytes - free_bytes);
}

}  // namespace shardscope::cuda
