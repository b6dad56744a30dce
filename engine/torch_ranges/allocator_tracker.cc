#include "engine/torch_ranges/allocator_tracker.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <dlfcn.h>
#include <time.h>

#include <array>
#include <atomic>
#include <exception>

#include "engine/torch_ranges/thread_ranges.h"

namespace shardscope::torch_ranges {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;
using c10::cuda::CUDACachingAllocator::CUDAAllocator;

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

// The allocator in use, which PyTorch keeps in a variable of libc10_cuda; null: there is none.
CUDAAllocator* FindAllocator(std::string* reason) {
  void* const library = dlopen("libc10_cuda.so", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) {
    *reason = "this PyTorch has no CUDA";
    return nullptr;
  }
  const auto* const variable = static_cast<std::atomic<CUDAAllocator*>*>(
      dlsym(library, "_ZN3c104cuda20CUDACachingAllocator9allocatorE"));
  CUDAAllocator* const allocator = variable == nullptr ? nullptr : variable->load();
  if (allocator == nullptr) *reason = "libc10_cuda.so has no allocator where PyTorch 2.11 has it";
  return allocator;
}

}  // namespace

std::string AttachToAllocator(ShardscopeAllocatorSink sink) {
  try {
    std::string reason;
    CUDAAllocator* const allocator = FindAllocator(&reason);
    if (allocator == nullptr) return reason;
    if (g_allocator != nullptr) return "";
    if (!allocator->initialized()) return "PyTorch has not initialised CUDA";
    if (!allocator->isEnabled()) return "caching is switched off (PYTORCH_NO_CUDA_MEMORY_CACHING)";
    g_sink = sink;
    g_allocator = allocator;
    allocator->attachAllocatorTraceTracker(&OnEntry);
    return "";
  } catch (const c10::Error& error) {
    // Allocators other than PyTorch's own have no such events: cudaMallocAsync, pluggable ones.
    g_allocator = nullptr;
    return error.what_without_backtrace();
  } catch (const std::exception& error) {
    g_allocator = nullptr;
    return error.what();
  }
}

}  // namespace shardscope::torch_ranges
