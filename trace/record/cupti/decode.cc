#include "trace/record/cupti/decode.h"

#include <cupti_driver_cbid.h>
#include <cupti_runtime_cbid.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <type_traits>
#include <utility>

namespace shardscope::cupti {
namespace {

// Layouts of CUPTI 13.0. A header that differs must not compile: records are read by offset.
static_assert(sizeof(CUpti_ActivityKernel10) == 216);
static_assert(offsetof(CUpti_ActivityKernel10, start) == 16);
static_assert(offsetof(CUpti_ActivityKernel10, end) == 24);
static_assert(offsetof(CUpti_ActivityKernel10, deviceId) == 40);
static_assert(offsetof(CUpti_ActivityKernel10, streamId) == 48);
static_assert(offsetof(CUpti_ActivityKernel10, correlationId) == 92);
static_assert(offsetof(CUpti_ActivityKernel10, name) == 104);
static_assert(offsetof(CUpti_ActivityKernel10, queued) == 120);
static_assert(offsetof(CUpti_ActivityKernel10, graphNodeId) == 144);
static_assert(offsetof(CUpti_ActivityKernel10, channelID) == 168);
static_assert(offsetof(CUpti_ActivityKernel10, isDeviceLaunched) == 208);
static_assert(sizeof(CUpti_ActivityMemcpy6) == 96);
static_assert(sizeof(CUpti_ActivityMemcpyPtoP4) == 96);
static_assert(sizeof(CUpti_ActivityMemset4) == 88);
static_assert(sizeof(CUpti_ActivityAPI) == 40);
static_assert(offsetof(CUpti_ActivityAPI, threadId) == 28);
static_assert(offsetof(CUpti_ActivityAPI, correlationId) == 32);
static_assert(sizeof(CUpti_ActivitySynchronization2) == 56);
static_assert(offsetof(CUpti_ActivitySynchronization2, cudaEventSyncId) == 40);
static_assert(sizeof(CUpti_ActivityCudaEvent2) == 56);
static_assert(offsetof(CUpti_ActivityCudaEvent2, deviceTimestamp) == 40);
static_assert(sizeof(CUpti_ActivityMemory4) == 128);
static_assert(offsetof(CUpti_ActivityMemory4, memoryPoolConfig) == 80);
static_assert(offsetof(CUpti_ActivityMemory4, source) == 120);
static_assert(sizeof(CUpti_ActivityOverhead3) == 56);
static_assert(sizeof(CUpti_ActivityStream) == 24);

// What no clock shows is no time: differences of what is left do not overflow. Likewise bytes.
constexpr uint64_t kMost = uint64_t{1} << 62;
int64_t Time(uint64_t time) { return time < kMost ? static_cast<int64_t>(time) : 0; }
int64_t Bytes(uint64_t bytes) { return bytes < kMost ? static_cast<int64_t>(bytes) : 0; }

template <typename Value>
using Meaning = std::pair<uint32_t, Value>;  // what a number of CUPTI stands for

template <typename Value, size_t kSize>
Value MeaningOf(const Meaning<Value> (&meanings)[kSize], uint32_t number, Value otherwise) {
  for (const auto& [known, value] : meanings) {
    if (known == number) return value;
  }
  return otherwise;
}

constexpr Meaning<ChannelKind> kChannelKinds[] = {
    {CUPTI_CHANNEL_TYPE_COMPUTE, ChannelKind::kCompute},
    {CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY, ChannelKind::kCopy},
    {CUPTI_CHANNEL_TYPE_DECOMP, ChannelKind::kDecompression}};

constexpr Meaning<CopyKind> kCopyKinds[] = {
    {CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, CopyKind::kHostToDevice},
    {CUPTI_ACTIVITY_MEMCPY_KIND_DTOH, CopyKind::kDeviceToHost},
    {CUPTI_ACTIVITY_MEMCPY_KIND_DTOD, CopyKind::kDeviceToDevice},
    {CUPTI_ACTIVITY_MEMCPY_KIND_PTOP, CopyKind::kPeer}};

constexpr Meaning<WaitKind> kWaitKinds[] = {
    {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE, WaitKind::kEvent},
    {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT, WaitKind::kStreamWaitsForEvent},
    {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE, WaitKind::kStream},
    {CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE, WaitKind::kContext}};

constexpr Meaning<MemoryKind> kMemoryKinds[] = {
    {CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE, MemoryKind::kPageable},
    {CUPTI_ACTIVITY_MEMORY_KIND_PINNED, MemoryKind::kPinned},
    {CUPTI_ACTIVITY_MEMORY_KIND_DEVICE, MemoryKind::kDevice},
    {CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC, MemoryKind::kDevice},
    {CUPTI_ACTIVITY_MEMORY_KIND_MANAGED, MemoryKind::kManaged},
    {CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC, MemoryKind::kManaged}};

constexpr Meaning<const char*> kOverheads[] = {
    {CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER, "driver compiler"},
    {CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, "CUPTI buffer flush"},
    {CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION, "CUPTI instrumentation"},
    {CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE, "CUPTI resources"},
    {CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING, "module loading"},
    {CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, "lazy function loading"},
    {CUPTI_ACTIVITY_OVERHEAD_COMMAND_BUFFER_FULL, "command buffer full"},
    {CUPTI_ACTIVITY_OVERHEAD_ACTIVITY_BUFFER_REQUEST, "CUPTI buffer request"}};

template <typename Record>
Channel ChannelOf(const Record& record) {
  return {record.channelID,
          MeaningOf(kChannelKinds, Number(record, &Record::channelType), ChannelKind::kUnknown)};
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

// Calls use<Record>() with the type of the records of a kind; void: a kind that nothing here uses.
template <typename Use>
auto WithType(uint32_t kind, Use use) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return use.template operator()<CUpti_ActivityKernel10>();
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return use.template operator()<CUpti_ActivityMemcpy6>();
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return use.template operator()<CUpti_ActivityMemcpyPtoP4>();
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return use.template operator()<CUpti_ActivityMemset4>();
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return use.template operator()<CUpti_ActivityAPI>();
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return use.template operator()<CUpti_ActivitySynchronization2>();
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return use.template operator()<CUpti_ActivityCudaEvent2>();
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return use.template operator()<CUpti_ActivityMemory4>();
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return use.template operator()<CUpti_ActivityOverhead3>();
    case CUPTI_ACTIVITY_KIND_STREAM:
      return use.template operator()<CUpti_ActivityStream>();
    default:
      return use.template operator()<void>();
  }
}

template <typename Record>
const Record& As(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

// Bytes of a record that is read; 0: a kind that nothing here uses.
size_t SizeOf(uint32_t kind) {
  return WithType(kind, []<typename Record>() -> size_t {
    if constexpr (std::is_void_v<Record>) {
      return 0;
    } else {
      return sizeof(Record);
    }
  });
}

// Adds records to a batch as plain values. Records are complete and aligned; the values of their
// fields is not trusted.
class RecordReader {
 public:
  RecordReader(const CuptiFunctions& functions, Names& names, Batch& batch)
      : functions_(functions), names_(names), batch_(batch) {}

  // False: a kind that nothing here uses.
  bool Take(const CUpti_Activity* record) {
    return WithType(Number(*record, &CUpti_Activity::kind), [&]<typename Record>() {
      if constexpr (!std::is_void_v<Record>) Add(As<Record>(record));
      return !std::is_void_v<Record>;
    });
  }

 private:
  void Add(const CUpti_ActivityKernel10& record) {
    Kernel kernel;
    kernel.start_ns = Time(record.start);
    kernel.end_ns = Time(record.end);
    kernel.device = record.deviceId;
    kernel.stream = {record.contextId, record.streamId};
    kernel.correlation = record.correlationId;
    kernel.name = names_.OfPointer(record.name);
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
    batch_.kernels.push_back(kernel);
  }
  void Add(const CUpti_ActivityMemcpy6& record) {
    Copy copy = CommonOfCopy(record);
    copy.kind = MeaningOf(kCopyKinds, record.copyKind, CopyKind::kOther);
    copy.runtime_correlation = record.runtimeCorrelationId;
    batch_.copies.push_back(copy);
  }
  void Add(const CUpti_ActivityMemcpyPtoP4& record) {
    Copy copy = CommonOfCopy(record);
    copy.kind = CopyKind::kPeer;
    batch_.copies.push_back(copy);
  }
  void Add(const CUpti_ActivityMemset4& record) {
    Copy copy = CommonOfCopy(record);
    copy.kind = CopyKind::kSet;
    batch_.copies.push_back(copy);
  }
  void Add(const CUpti_ActivityAPI& record) {
    ApiCall call;
    call.start_ns = Time(record.start);
    call.end_ns = std::max(call.start_ns, Time(record.end));
    call.callback = record.cbid;
    call.driver = Number(record, &CUpti_ActivityAPI::kind) == CUPTI_ACTIVITY_KIND_DRIVER;
    call.thread = record.threadId;
    call.correlation = record.correlationId;
    call.result = record.returnValue;
    call.name = names_.OfCall(call.driver, call.callback,
                              [&] { return NameOfCall(functions_, call.driver, call.callback); });
    call.launches = call.result == 0 && LaunchesKernel(call.driver, call.callback);
    batch_.calls.push_back(call);
  }
  void Add(const CUpti_ActivitySynchronization2& record) {
    batch_.waits.push_back(
        {Time(record.start),
         Time(record.end),
         MeaningOf(kWaitKinds, Number(record, &CUpti_ActivitySynchronization2::type),
                   WaitKind::kOther),
         {record.contextId, record.streamId},
         record.correlationId,
         Recording(record.cudaEventSyncId)});
  }
  void Add(const CUpti_ActivityCudaEvent2& record) {
    batch_.event_records.push_back({{record.contextId, record.streamId},
                                    record.correlationId,
                                    Recording(record.cudaEventSyncId),
                                    Time(record.deviceTimestamp)});
  }
  void Add(const CUpti_ActivityMemory4& record) {
    const int64_t bytes = Bytes(record.bytes);
    const bool is_release = Number(record, &CUpti_ActivityMemory4::memoryOperationType) ==
                            CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
    batch_.memory.push_back(
        {Time(record.timestamp), is_release ? -bytes : bytes, record.address,
         MeaningOf(kMemoryKinds, Number(record, &CUpti_ActivityMemory4::memoryKind),
                   MemoryKind::kOther),
         record.deviceId, record.correlationId});
  }
  void Add(const CUpti_ActivityOverhead3& record) {
    batch_.overheads.push_back(
        {Time(record.start), Time(record.end),
         names_.OfText(MeaningOf(kOverheads, Number(record, &CUpti_ActivityOverhead3::overheadKind),
                                 "overhead"))});
  }
  void Add(const CUpti_ActivityStream& record) {
    batch_.streams.push_back(
        {{record.contextId, record.streamId}, static_cast<int32_t>(record.priority)});
  }

  const CuptiFunctions& functions_;
  Names& names_;
  Batch& batch_;
};

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

DecodeResult Decode(const CuptiFunctions& functions, uint8_t* buffer, size_t size, Names& names,
                    Batch& batch) {
  DecodeResult done;
  RecordReader reader(functions, names, batch);
  CUpti_Activity* record = nullptr;
  CUptiResult result = CUPTI_SUCCESS;
  const uint8_t* at = buffer;
  const uint8_t* const end = buffer + size;
  while ((result = functions.ActivityGetNextRecord(buffer, size, &record)) == CUPTI_SUCCESS) {
    // Another CUPTI may have shorter records than the headers that this was built with.
    const auto* here = reinterpret_cast<const uint8_t*>(record);
    const bool inside = here >= at && here < end &&
                        reinterpret_cast<uintptr_t>(here) % alignof(uint64_t) == 0 &&
                        static_cast<size_t>(end - here) >= sizeof(CUpti_Activity);
    if (!inside ||
        static_cast<size_t>(end - here) < SizeOf(Number(*record, &CUpti_Activity::kind))) {
      done.damaged = true;
      return done;
    }
    at = here + sizeof(CUpti_Activity);
    if (Number(*record, &CUpti_Activity::kind) == CUPTI_ACTIVITY_KIND_OVERHEAD) {
      void* const data = As<CUpti_ActivityOverhead3>(record).overheadData;
      if (data != nullptr) done.overhead_data.push_back(data);
    }
    if (reader.Take(record)) {
      ++done.decoded;
    } else {
      ++done.ignored;
    }
  }
  done.damaged = result != CUPTI_ERROR_MAX_LIMIT_REACHED;
  return done;
}

}  // namespace shardscope::cupti
