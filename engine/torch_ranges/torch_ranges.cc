// libshardscope_torch.so: PyTorch's own ranges (record_function, among them FSDP's "FSDP::...") as
// NVTX ranges, in the domain "torch". `shardscope record` has every Python that imports torch 2.11
// load it (sitecustomize.py); the injected library then records them like any other range, and so
// does any other tool that takes NVTX.
//
// It talks C++ to a LibTorch that it did not come with, hence a library of its own, pinned to one
// version, and nothing else of Shardscope in it.
#include <ATen/record_function.h>
#include <nvtx3/nvToolsExt.h>

#include <memory>

namespace shardscope::torch_ranges {
namespace {

// Ranges begin and end in any order, so they have ids instead of a stack.
struct Range : at::ObserverContext {
  nvtxRangeId_t id = 0;
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
  return range;
}

void OnEnd(const at::RecordFunction& /*function*/, at::ObserverContext* context) {
  if (context != nullptr) nvtxDomainRangeEnd(Domain(), static_cast<Range*>(context)->id);
}

}  // namespace
}  // namespace shardscope::torch_ranges

// Once, before the program has threads of its own that run PyTorch: callbacks may not be added
// beside them. Only ranges that somebody wrote: one for every operator would cost a microsecond
// each.
extern "C" __attribute__((visibility("default"))) void ShardscopeTorchStart() {
  namespace ranges = shardscope::torch_ranges;
  at::addGlobalCallback(at::RecordFunctionCallback(&ranges::OnStart, &ranges::OnEnd)
                            .scopes({at::RecordScope::USER_SCOPE}));
}
