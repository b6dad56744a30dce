#include "trace/record/cupti/decode.h"

#include <cstddef>
#include <cstdlib>

#include "trace/record/cupti/record_values.h"

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

template <typename Record>
const Record& As(const CUpti_Activity* record) {
  return *reinterpret_cast<const Record*>(record);
}

// Bytes of a record that AddRecord() reads; 0: a kind that nothing here uses.
size_t SizeOf(uint32_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return sizeof(CUpti_ActivityMemcpyPtoP4);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      return sizeof(CUpti_ActivityMemset4);
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return sizeof(CUpti_ActivitySynchronization2);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      return sizeof(CUpti_ActivityCudaEvent2);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      return sizeof(CUpti_ActivityMemory4);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      return sizeof(CUpti_ActivityOverhead3);
    case CUPTI_ACTIVITY_KIND_STREAM:
      return sizeof(CUpti_ActivityStream);
    default:
      return 0;
  }
}

// False: a kind that nothing here uses.
bool AddRecord(const CuptiFunctions& functions, const CUpti_Activity* record, Names& names,
               Batch& batch) {
  switch (Number(*record, &CUpti_Activity::kind)) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      AddKernel(As<CUpti_ActivityKernel10>(record), names, batch);
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      AddMemcpy(As<CUpti_ActivityMemcpy6>(record), batch);
      return true;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      AddPeerCopy(As<CUpti_ActivityMemcpyPtoP4>(record), batch);
      return true;
    case CUPTI_ACTIVITY_KIND_MEMSET:
      AddMemset(As<CUpti_ActivityMemset4>(record), batch);
      return true;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER:
      AddCall(functions, As<CUpti_ActivityAPI>(record), names, batch);
      return true;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      AddWait(As<CUpti_ActivitySynchronization2>(record), batch);
      return true;
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      AddEventRecord(As<CUpti_ActivityCudaEvent2>(record), batch);
      return true;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      AddMemory(As<CUpti_ActivityMemory4>(record), batch);
      return true;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      AddOverhead(As<CUpti_ActivityOverhead3>(record), names, batch);
      return true;
    case CUPTI_ACTIVITY_KIND_STREAM: {
      const auto& stream = As<CUpti_ActivityStream>(record);
      batch.streams.push_back(
          {{stream.contextId, stream.streamId}, static_cast<int32_t>(stream.priority)});
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

DecodeResult Decode(const CuptiFunctions& functions, uint8_t* buffer, size_t size, Names& names,
                    Batch& batch) {
  DecodeResult done;
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
    if (AddRecord(functions, record, names, batch)) {
      ++done.decoded;
    } else {
      ++done.ignored;
    }
  }
  done.damaged = result != CUPTI_ERROR_MAX_LIMIT_REACHED;
  return done;
}

}  // namespace shardscope::cupti
