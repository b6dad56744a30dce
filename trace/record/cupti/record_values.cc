#include "trace/record/cupti/record_values.h"

#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

namespace shardscope::cupti {
namespace {

// What no clock shows is no time: differences of what is left do not overflow. Likewise bytes.
constexpr uint64_t kMost = uint64_t{1} << 62;
int64_t Time(uint64_t time) { return time < kMost ? static_cast<int64_t>(time) : 0; }
int64_t Bytes(uint64_t bytes) { return bytes < kMost ? static_cast<int64_t>(bytes) : 0; }

template <typename Record>
Channel ChannelOf(const Record& record) {
  switch (Number(record, &Record::channelType)) {
    case CUPTI_CHANNEL_TYPE_COMPUTE:
      return {record.channelID, ChannelKind::kCompute};
    case CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY:
      return {record.channelID, ChannelKind::kCopy};
    case CUPTI_CHANNEL_TYPE_DECOMP:
      return {record.channelID, ChannelKind::kDecompression};
    default:
      return {record.channelID, ChannelKind::kUnknown};
  }
}

CopyKind KindOfCopy(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return CopyKind::kHostToDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return CopyKind::kDeviceToHost;
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return CopyKind::kDeviceToDevice;
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return CopyKind::kPeer;
    default:
      return CopyKind::kOther;
  }
}

// What memcpy, peer copy and memset records have in common under the same names.
template <typename Record>
Copy CommonOfCopy(const Record& record) {
  Copy copy;
  copy.start_ns = Time(record.start);
  copy.end_ns = Time(record.end);
  copy.bytes = Bytes(record.bytes);
  copy.device = record.deviceId;
  copy.stream = {record.contextId, record.streamId};
  copy.correlation = record.correlationId;
  copy.channel = ChannelOf(record);
  return copy;
}

// "cudaLaunchKernel_v7000" is cudaLaunchKernel to people.
std::string NameOfCall(const CuptiFunctions& functions, bool driver, uint32_t callback) {
  const char* name = nullptr;
  const auto domain = driver ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
  if (functions.GetCallbackName == nullptr ||
      functions.GetCallbackName(domain, callback, &name) != CUPTI_SUCCESS || name == nullptr) {
    return fmt::format("CUDA {} call {}", driver ? "driver" : "runtime", callback);
  }
  std::string text = name;
  const size_t version = text.rfind("_v");
  if (version != std::string::npos && version + 2 < text.size() &&
      std::all_of(text.begin() + static_cast<ptrdiff_t>(version) + 2, text.end(),
                  [](unsigned char c) { return std::isdigit(c) != 0; })) {
    text.resize(version);
  }
  return text;
}

// CUPTI writes "none" as 32 set bits, also into fields of 64.
uint64_t Recording(uint64_t id) {
  return id == CUPTI_SYNCHRONIZATION_INVALID_VALUE ? kNoRecording : id;
}

WaitKind KindOfWait(uint32_t type) {
  switch (type) {
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE:
      return WaitKind::kEvent;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT:
      return WaitKind::kStreamWaitsForEvent;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE:
      return WaitKind::kStream;
    case CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE:
      return WaitKind::kContext;
    default:
      return WaitKind::kOther;
  }
}

MemoryKind KindOfMemory(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE:
      return MemoryKind::kPageable;
    case CUPTI_ACTIVITY_MEMORY_KIND_PINNED:
      return MemoryKind::kPinned;
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE:
    case CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC:
      return MemoryKind::kDevice;
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED:
    case CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC:
      return MemoryKind::kManaged;
    default:
      return MemoryKind::kOther;
  }
}

const char* NameOfOverhead(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER:
      return "driver compiler";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH:
      return "CUPTI buffer flush";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION:
      return "CUPTI instrumentation";
    case CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE:
      return "CUPTI resources";
    case CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING:
      return "module loading";
    case CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING:
      return "lazy function loading";
    case CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL:
      return "command buffer full";
    case CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST:
      return "CUPTI buffer request";
    default:
      return "overhead";
  }
}

}  // namespace

bool LaunchesKernel(bool driver, uint32_t callback) {
  static constexpr std::array kRuntime = {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000,
                                          CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_ptsz_v7000,
                                          CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_v13000,
                                          CUPTI_RUNTIME_TRACE_CBID___cudaLaunchKernel_ptsz_v13000,
                                          CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060,
                                          CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_ptsz_v11060};
  static constexpr std::array kDriver = {
      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel_ptsz,
      CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx_ptsz};
  const auto has = [callback](const auto& calls) {
    return std::any_of(calls.begin(), calls.end(),
                       [callback](auto call) { return static_cast<uint32_t>(call) == callback; });
  };
  return driver ? has(kDriver) : has(kRuntime);
}

void AddKernel(const CUpti_ActivityKernel10& record, Names& names, Batch& batch) {
  Kernel kernel;
  kernel.start_ns = Time(record.start);
  kernel.end_ns = Time(record.end);
  kernel.device = record.deviceId;
  kernel.stream = {record.contextId, record.streamId};
  kernel.correlation = record.correlationId;
  kernel.name = names.OfPointer(record.name);
  kernel.grid = {record.gridX, record.gridY, record.gridZ};
  kernel.block = {record.blockX, record.blockY, record.blockZ};
  kernel.registers = record.registersPerThread;
  kernel.cluster = {static_cast<int32_t>(record.clusterX), static_cast<int32_t>(record.clusterY),
                    static_cast<int32_t>(record.clusterZ)};
  kernel.static_shared_memory = record.staticSharedMemory;
  kernel.dynamic_shared_memory = record.dynamicSharedMemory;
  kernel.graph = record.graphId;
  kernel.graph_node = record.graphNodeId;
  kernel.channel = ChannelOf(record);
  batch.kernels.push_back(kernel);
}

void AddMemcpy(const CUpti_ActivityMemcpy6& record, Batch& batch) {
  Copy copy = CommonOfCopy(record);
  copy.kind = KindOfCopy(record.copyKind);
  copy.runtime_correlation = record.runtimeCorrelationId;
  batch.copies.push_back(copy);
}

void AddPeerCopy(const CUpti_ActivityMemcpyPtoP4& record, Batch& batch) {
  Copy copy = CommonOfCopy(record);
  copy.kind = CopyKind::kPeer;
  batch.copies.push_back(copy);
}

void AddMemset(const CUpti_ActivityMemset4& record, Batch& batch) {
  Copy copy = CommonOfCopy(record);
  copy.kind = CopyKind::kSet;
  batch.copies.push_back(copy);
}

void AddCall(const CuptiFunctions& functions, const CUpti_ActivityAPI& record, Names& names,
             Batch& batch) {
  ApiCall call;
  call.start_ns = Time(record.start);
  call.end_ns = std::max(call.start_ns, Time(record.end));
  call.callback = record.cbid;
  call.driver = Number(record, &CUpti_ActivityAPI::kind) == CUPTI_ACTIVITY_KIND_DRIVER;
  call.thread = record.threadId;
  call.correlation = record.correlationId;
  call.result = record.returnValue;
  call.name = names.OfCall(call.driver, call.callback,
                           [&] { return NameOfCall(functions, call.driver, call.callback); });
  call.launches = call.result == 0 && LaunchesKernel(call.driver, call.callback);
  batch.calls.push_back(call);
}

void AddWait(const CUpti_ActivitySynchronization2& record, Batch& batch) {
  batch.waits.push_back({Time(record.start),
                         Time(record.end),
                         KindOfWait(Number(record, &CUpti_ActivitySynchronization2::type)),
                         {record.contextId, record.streamId},
                         record.correlationId,
                         Recording(record.cudaEventSyncId)});
}

void AddEventRecord(const CUpti_ActivityCudaEvent2& record, Batch& batch) {
  batch.event_records.push_back({{record.contextId, record.streamId},
                                 record.correlationId,
                                 Recording(record.cudaEventSyncId),
                                 Time(record.deviceTimestamp)});
}

void AddMemory(const CUpti_ActivityMemory4& record, Batch& batch) {
  const int64_t bytes = Bytes(record.bytes);
  const bool is_release = Number(record, &CUpti_ActivityMemory4::memoryOperationType) ==
                          CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  batch.memory.push_back({Time(record.timestamp), is_release ? -bytes : bytes, record.address,
                          KindOfMemory(Number(record, &CUpti_ActivityMemory4::memoryKind)),
                          record.deviceId, record.correlationId});
}

void AddOverhead(const CUpti_ActivityOverhead3& record, Names& names, Batch& batch) {
  batch.overheads.push_back(
      {Time(record.start), Time(record.end),
       names.OfText(NameOfOverhead(Number(record, &CUpti_ActivityOverhead3::overheadKind)))});
}

}  // namespace shardscope::cupti
