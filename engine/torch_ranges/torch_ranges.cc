// libshardscope_torch.so: PyTorch's own ranges (record_function, among them FSDP's "FSDP::...") as
// NVTX ranges, in the domain "torch", and the events of its CUDA caching allocator. `shardscope
// record` has every Python that imports torch 2.11 load it (sitecustomize.py); the injected library
// then records the ranges like any other, as does any other tool that takes NVTX, and is given the
// events.
//
// It talks C++ to a LibTorch that it did not come with, hence a library of its own, pinned to one
// version, and nothing else of Shardscope in it.
#include <ATen/record_function.h>
#include <nvtx3/nvToolsExt.h>
#include <time.h>

#include <array>
#include <exception>
#include <memory>
#include <string>

#include "engine/torch_ranges/open_ranges.h"
#include "engine/torch_ranges/torch_allocator.h"
#include "trace/base/time.h"
#include "trace/record/inject/allocator/allocator_event.h"

namespace shardscope::torch_ranges {
namespace {

// Ranges begin and end in any order, so they have ids instead of a stack.
struct Range : at::ObserverContext {
  nvtxRangeId_t id = 0;
  OpenRanges* thread = nullptr;  // where it began
  std::shared_ptr<OpenRanges::Range> open;
};

nvtxDomainHandle_t Domain() {
  static nvtxDomainHandle_t const domain = nvtxDomainCreateA("torch");
  return domain;
}

// Any thread, in the middle of a recorded program's step.
std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& function) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = function.name();
  auto range = std::make_unique<Range>();
  range->id = nvtxDomainRangeStartEx(Domain(), &event);
  range->thread = &OpenRanges::OfThread();
  range->open = range->thread->Begin(function.name());
  return range;
}

void OnEnd(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* const range = static_cast<Range*>(context);
  nvtxDomainRangeEnd(Domain(), range->id);
  if (range->thread == &OpenRanges::OfThread()) {
    range->thread->End(range->open.get());
  } else {
    OpenRanges::EndElsewhere(range->open.get());
  }
}

// The events of PyTorch's CUDA caching allocator. Nothing of CUDA is linked: without it, in a
// PyTorch for the CPU, there is nothing to attach to.

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
  return time.tv_sec * kNsPerSecond + time.tv_nsec;
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
  const Owner owner = OpenRanges::OfThread().owner();
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

// Once, after PyTorch has initialised CUDA, which drops what was attached before. What is known of
// the calling thread's ranges goes with every event. Empty: attached; else why not.
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

}  // namespace
}  // namespace shardscope::torch_ranges

#define SHARDSCOPE_EXPORT extern "C" __attribute__((visibility("default")))

// Once, before the program has threads of its own that run PyTorch: callbacks may not be added
// beside them. Only ranges of the program's source: one for every operator would cost a microsecond
// each. Empty: done; else why not.
SHARDSCOPE_EXPORT const char* ShardscopeTorchStart() {
  namespace ranges = shardscope::torch_ranges;
  try {
    at::addGlobalCallback(at::RecordFunctionCallback(&ranges::OnStart, &ranges::OnEnd)
                              .scopes({at::RecordScope::USER_SCOPE}));
    return "";
  } catch (const std::exception& error) {
    static const auto* const reason = new std::string(error.what());
    return reason->c_str();
  }
}

// Once, when PyTorch has initialised CUDA. Empty: events go to `sink` from now on; else why not.
SHARDSCOPE_EXPORT const char* ShardscopeTorchAllocator(ShardscopeAllocatorSink sink) {
  static const auto* const reason =
      new std::string(shardscope::torch_ranges::AttachToAllocator(sink));
  return reason->c_str();
}
