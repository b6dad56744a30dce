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

#include <exception>
#include <memory>
#include <string>

#include "engine/torch_ranges/allocator_tracker.h"
#include "engine/torch_ranges/thread_ranges.h"

namespace shardscope::torch_ranges {

OpenRanges& MyRanges() {
  static thread_local auto* const ranges = new OpenRanges;
  return *ranges;
}

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

// Any thread, in the middle of somebody else's step.
std::unique_ptr<at::ObserverContext> OnStart(const at::RecordFunction& function) {
  nvtxEventAttributes_t event = {};
  event.version = NVTX_VERSION;
  event.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  event.messageType = NVTX_MESSAGE_TYPE_ASCII;
  event.message.ascii = function.name();
  auto range = std::make_unique<Range>();
  range->id = nvtxDomainRangeStartEx(Domain(), &event);
  range->thread = &MyRanges();
  range->open = range->thread->Begin(function.name());
  return range;
}

void OnEnd(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* const range = static_cast<Range*>(context);
  nvtxDomainRangeEnd(Domain(), range->id);
  if (range->thread == &MyRanges()) {
    range->thread->End(range->open.get());
  } else {
    OpenRanges::EndElsewhere(range->open.get());
  }
}

}  // namespace
}  // namespace shardscope::torch_ranges

#define SHARDSCOPE_EXPORT extern "C" __attribute__((visibility("default")))

// Once, before the program has threads of its own that run PyTorch: callbacks may not be added
// beside them. Only ranges that somebody wrote: one for every operator would cost a microsecond
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
