#include "trace/record/cupti/sources.h"

#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <fmt/format.h>

#include <array>

#include "trace/base/text.h"
#include "trace/record/cupti/decode.h"

namespace shardscope::cupti {
namespace {

struct Kind {
  CUpti_ActivityKind kind;
  const char* name;  // CUPTI_ACTIVITY_KIND_<name>
  const char* what;  // it tells
};

// What the GPU's work gives rise to. CONCURRENT_KERNEL, never KERNEL, which would make kernels wait
// for each other. The first two are needed.
constexpr std::array kWorkKinds = {
    Kind{CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, "CONCURRENT_KERNEL", "kernels"},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY, "MEMCPY", "copies"},
    Kind{CUPTI_ACTIVITY_KIND_MEMCPY2, "MEMCPY2", "copies between GPUs"},
    Kind{CUPTI_ACTIVITY_KIND_MEMSET, "MEMSET", "memsets"},
    Kind{CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, "SYNCHRONIZATION",
         "waits of streams and of the host"},
    Kind{CUPTI_ACTIVITY_KIND_CUDA_EVENT, "CUDA_EVENT", "what streams wait for"},
};
constexpr size_t kNumNeeded = 2;
constexpr std::array kLastingKinds = {
    Kind{CUPTI_ACTIVITY_KIND_MEMORY2, "MEMORY2", "memory that the driver hands out"},
    Kind{CUPTI_ACTIVITY_KIND_OVERHEAD, "OVERHEAD", "what CUPTI itself takes"},
};
// Those that existed before are reported as well.
constexpr std::array kDumpedKinds = {
    Kind{CUPTI_ACTIVITY_KIND_DEVICE, "DEVICE", "devices"},
    Kind{CUPTI_ACTIVITY_KIND_CONTEXT, "CONTEXT", "contexts"},
    Kind{CUPTI_ACTIVITY_KIND_STREAM, "STREAM", "priorities of streams"},
};

// Calls that put work on a stream, order streams or wait. The whole kinds would also record every
// cudaGetDevice. nvcc 13 compiles <<<>>> to __cudaLaunchKernel, which older lists lack.
constexpr std::array kRuntimeCalls = {
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
    CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchCooperativeKernel_v9000,
    CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaLaunchHostFunc_v10000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyBatchAsync_v13000,
    CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaMallocAsync_v11020,
    CUPTI_RUNTIME_TRACE_CBID_cudaFreeAsync_v11020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventRecordWithFlags_v11010,
    CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020,
    CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020,
};
// NCCL launches with the driver's cuLaunchKernelEx, and its copy engines and other compilers copy
// with the driver's calls.
constexpr std::array kDriverCalls = {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx,
                                     CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync_ptsz,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemCreate,
                                     CUPTI_DRIVER_TRACE_CBID_cuMemMap};

}  // namespace

std::string Refusal(const CuptiFunctions& functions, const std::string& call, CUptiResult result) {
  const char* text = nullptr;
  functions.GetResultString(result, &text);
  return fmt::format("{} gave {} ({})", call, static_cast<int>(result),
                     text == nullptr ? "?" : text);
}

bool Sources::Check(CUptiResult result, const std::string& what, const std::string& call) {
  if (result == CUPTI_SUCCESS) return true;
  missing_.push_back(fmt::format("{}: {}", what, Refusal(functions_, call, result)));
  return false;
}

// "cudaLaunchKernel_v7000, cbid 211".
std::string Sources::NameOf(CUpti_CallbackDomain domain, CUpti_CallbackId call) const {
  const char* name = nullptr;
  if (functions_.GetCallbackName == nullptr ||
      functions_.GetCallbackName(domain, call, &name) != CUPTI_SUCCESS || name == nullptr) {
    return fmt::format("cbid {}", call);
  }
  return fmt::format("{}, cbid {}", name, call);
}

// Calls before kinds: enabling a whole kind of calls later would override the choice.
Status Sources::Enable() {
  SHARDSCOPE_RETURN_IF_ERROR(EnableCalls());
  for (size_t i = 0; i < kWorkKinds.size(); ++i) {
    const Kind& kind = kWorkKinds[i];
    const CUptiResult result = functions_.ActivityEnable(kind.kind);
    const std::string call = fmt::format("cuptiActivityEnable({})", kind.name);
    if (result != CUPTI_SUCCESS && i < kNumNeeded) {
      return Status::Error(fmt::format("CUPTI is not to be had: no {}: {}", kind.what,
                                       Refusal(functions_, call, result)));
    }
    if (Check(result, fmt::format("no {}", kind.what), call)) work_kinds_.push_back(kind.kind);
  }
  for (const Kind& kind : kLastingKinds) {
    if (Check(functions_.ActivityEnable(kind.kind), fmt::format("no {}", kind.what),
              fmt::format("cuptiActivityEnable({})", kind.name))) {
      lasting_kinds_.push_back(kind.kind);
    }
  }
  for (const Kind& kind : kDumpedKinds) {
    if (Check(functions_.ActivityEnableAndDump(kind.kind), fmt::format("no {}", kind.what),
              fmt::format("cuptiActivityEnableAndDump({})", kind.name))) {
      lasting_kinds_.push_back(kind.kind);
    }
  }
  EnableOptions();
  return Status::Ok();
}

// Error: none of those that launch kernels is recorded, so nothing could be joined to anything.
Status Sources::EnableCalls() {
  std::vector<std::string> refused;
  bool launches = false;
  const auto enable = [&](CUpti_CallbackDomain domain, CUpti_CallbackId call) {
    const bool is_driver = domain == CUPTI_CB_DOMAIN_DRIVER_API;
    const CUptiResult result = is_driver ? functions_.ActivityEnableDriverApi(call, 1)
                                         : functions_.ActivityEnableRuntimeApi(call, 1);
    if (result == CUPTI_SUCCESS) {
      calls_.emplace_back(domain, call);
      launches = launches || LaunchesKernel(is_driver, call);
      return;
    }
    const char* const name =
        is_driver ? "cuptiActivityEnableDriverApi" : "cuptiActivityEnableRuntimeApi";
    refused.push_back(
        Refusal(functions_, fmt::format("{}({})", name, NameOf(domain, call)), result));
  };
  for (const CUpti_CallbackId call : kRuntimeCalls) enable(CUPTI_CB_DOMAIN_RUNTIME_API, call);
  for (const CUpti_CallbackId call : kDriverCalls) enable(CUPTI_CB_DOMAIN_DRIVER_API, call);
  if (!launches) {
    return Status::Error("CUPTI is not to be had: no launches of kernels: " + refused.front());
  }
  if (!refused.empty()) {
    missing_.push_back(fmt::format("{} call{} not recorded: {}", refused.size(),
                                   refused.size() == 1 ? " is" : "s are", Join(refused, "; ")));
  }
  return Status::Ok();
}

void Sources::EnableOptions() {
  // Else every poll of an event that is not done yet makes a record, and caching allocators poll.
  Check(functions_.ActivityEnableAllSyncRecords(0), "polls of events fill its buffers",
        "cuptiActivityEnableAllSyncRecords(0)");
  Check(functions_.ActivityEnableEventTimestamps(1), "no times at which events were reached",
        "cuptiActivityEnableCudaEventDeviceTimestamps(1)");
}

void Sources::Disable() {
  for (const CUpti_ActivityKind kind : lasting_kinds_) functions_.ActivityDisable(kind);
  Pause();
}

void Sources::Pause() {
  for (const CUpti_ActivityKind kind : work_kinds_) functions_.ActivityDisable(kind);
  SwitchCalls(false);
}

// As Enable(): calls before kinds.
void Sources::Resume() {
  SwitchCalls(true);
  for (const CUpti_ActivityKind kind : work_kinds_) functions_.ActivityEnable(kind);
}

void Sources::SwitchCalls(bool on) {
  for (const auto& [domain, call] : calls_) {
    domain == CUPTI_CB_DOMAIN_DRIVER_API ? functions_.ActivityEnableDriverApi(call, on ? 1 : 0)
                                         : functions_.ActivityEnableRuntimeApi(call, on ? 1 : 0);
  }
}

}  // namespace shardscope::cupti
