#include "engine/torch_ranges/allocator_tracker.h"

#include <time.h>

#include <array>
#include <exception>

#include "engine/torch_allocator/torch_allocator.h"
#include "engine/torch_ranges/thread_ranges.h"

namespace shardscope::torch_ranges {
namespace {

using torch_allocator::CUDAAllocator;
using torch_allocator::TraceEntry;

constexpr size_t kMaxDevices = 64;  // of one machine: as LibTorch's own C10_COMPILE_TIME_MAX_GPUS

// Set once, before the first event.
ShardscopeAllocatorSink g_sink = nullptr;
CUDAAllocator* g_allocator = nullptr;
// Whether the device's first event was told; each under the lock of that device's allocator.
std::array<bool, kMaxDevices> g_has_begun = {};

int64_t MonotonicNs() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1'000'000'000 + time.tv_nsec;
}

int32_t ActionOf(TraceEntry::Action action) {
  switch (action) {
    case TraceEntry::ALLOC:
      return kShardscopeAlloc;
    case TraceEntry::FREE_REQUESTED:
      return kShardscopeFreeRequested;
    case TraceEntry::FREE_COMPLETED:
      return kShardscopeFreeCompleted;
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
      return kShardscopeSegmentGained;
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
      return kShardscopeSegmentGiven;
    case TraceEntry::OOM:
      return kShardscopeOutOfMemory;
    case TraceEntry::SNAPSHOT:
      break;
  }
  return -1;
}

// Text of a view with its end; the views of Owner are parts of longer ones.
class Text {
 public:
  explicit Text(std::string_view text) : text_(text) {}
  const char* get() const { return text_.empty() ? nullptr : text_.c_str(); }

 private:
  const std::string text_;
};

// Under the lock of the device's allocator, which its own thread may take again: the sums are those
// of this moment. `time_` of an entry is the processor's own count; ours is that of all other rows.
void Tell(const TraceEntry& entry) {
  const int32_t action = ActionOf(entry.action_);
  const auto device = static_cast<size_t>(entry.device_);
  if (action < 0 || device >= kMaxDevices) return;
  const auto stats = g_allocator->getDeviceStats(entry.device_);
  const auto all = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  ShardscopeAllocatorEvent event = {};
  event.time_ns = MonotonicNs();
  event.device = entry.device_;
  event.active_bytes = stats.active_bytes[all].current;
  event.reserved_bytes = stats.reserved_bytes[all].current;
  if (!g_has_begun[device]) {
    g_has_begun[device] = true;
    event.action = kShardscopeAttached;
    g_sink(&event);
  }
  event.action = action;
  event.address = entry.addr_;
  event.stream = reinterpret_cast<uint64_t>(entry.stream_);
  event.bytes = static_cast<int64_t>(entry.size_);
  if (action != kShardscopeAlloc && action != kShardscopeOutOfMemory) return g_sink(&event);
  const Owner owner = MyRanges().owner();
  const Text range(owner.range);
  const Text unit(owner.unit);
  const Text phase(owner.phase);
  const Text category(owner.category);
  event.range = range.get();
  event.unit = unit.get();
  event.phase = phase.get();
  event.category = category.get();
  g_sink(&event);
}

// What fails here must not fail an allocation of the program: its event is missing then, which the
// allocator's own sums show.
void OnEntry(const TraceEntry& entry) {
  try {
    Tell(entry);
  } catch (const std::exception&) {
  }
}

}  // namespace

std::string AttachToAllocator(ShardscopeAllocatorSink sink) {
  try {
    std::string why_not;
    CUDAAllocator* const allocator = torch_allocator::Find(&why_not);
    if (allocator == nullptr || g_allocator != nullptr) return why_not;
    g_sink = sink;
    g_allocator = allocator;
    why_not = torch_allocator::Listen(allocator, &OnEntry);
    if (!why_not.empty()) g_allocator = nullptr;
    return why_not;
  } catch (const std::exception& error) {
    return error.what();
  }
}

}  // namespace shardscope::torch_ranges
