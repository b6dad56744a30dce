// A CUPTI without a GPU, loaded before the injected library looks for the real one. Every forced or
// plain flush hands out what FakeGpuWork() put into a buffer, as CUPTI does.
//
// FAKE_CUPTI says how it behaves: ok, held (by another tool), unknown (no driver), old (13.0 before
// Update 1), lossy (dropped records).
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace {

CUpti_BuffersCallbackRequestFunc request_buffer = nullptr;
CUpti_BuffersCallbackCompleteFunc complete_buffer = nullptr;
CUpti_TimestampCallbackFunc timestamp = nullptr;
uint8_t* buffer = nullptr;
size_t buffer_size = 0;
size_t used = 0;
size_t num_dropped = 0;

bool Behaves(std::string_view how) {
  const char* mode = std::getenv("FAKE_CUPTI");
  return mode != nullptr && mode == how;
}

template <typename Record>
void Put(const Record& record) {
  std::memcpy(buffer + used, &record, sizeof record);
  used += sizeof record;
}

size_t SizeOf(CUpti_ActivityKind kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      return sizeof(CUpti_ActivityKernel10);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      return sizeof(CUpti_ActivityMemcpy6);
    default:
      return 0;
  }
}

void PutKernel(uint32_t stream, uint64_t start, const char* name) {
  CUpti_ActivityKernel10 kernel = {};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = start;
  kernel.end = start + 1000;
  kernel.contextId = 1;
  kernel.streamId = stream;
  kernel.name = name;
  Put(kernel);
}

}  // namespace

// Two kernels on two streams and a copy, at the time of the registered clock.
extern "C" int FakeGpuWork() {
  if (request_buffer == nullptr) return 0;
  size_t max_records = 0;
  request_buffer(&buffer, &buffer_size, &max_records);
  if (buffer == nullptr) return 0;
  used = 0;
  const uint64_t now = timestamp();
  PutKernel(7, now, "_Z4gemmi");
  PutKernel(9, now, "ncclDevKernel_AllGather_RING_LL");
  CUpti_ActivityMemcpy6 copy = {};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD;
  copy.start = now;
  copy.end = now + 500;
  copy.contextId = 1;
  copy.streamId = 7;
  Put(copy);
  if (Behaves("lossy")) num_dropped = 5;
  return 1;
}

CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = Behaves("old") ? 130000 : 130001;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult /*result*/, const char** text) {
  *text = "fake";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain /*domain*/, uint32_t callback,
                                 const char** name) {
  *name = callback == 505 ? "__cudaLaunchKernel_v13000" : "fake";
  return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc /*callback*/,
                              void* /*data*/, CUpti_SubscriberParams* params) {
  if (Behaves("unknown")) return CUPTI_ERROR_UNKNOWN;
  if (Behaves("held")) {
    std::snprintf(params->oldSubscriberName, params->oldSubscriberSize, "Other Tool");
    return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  }
  *subscriber = reinterpret_cast<CUpti_SubscriberHandle>(1);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc request,
                                           CUpti_BuffersCallbackCompleteFunc complete) {
  request_buffer = request;
  complete_buffer = complete;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc callback) {
  timestamp = callback;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag) {
  // Only the end takes in what is left, as CUPTI keeps buffers that are not full.
  if (flag != CUPTI_ACTIVITY_FLAG_FLUSH_FORCED || buffer == nullptr) return CUPTI_SUCCESS;
  complete_buffer(nullptr, 0, buffer, buffer_size, used);
  buffer = nullptr;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t* data, size_t valid, CUpti_Activity** record) {
  auto* next =
      *record == nullptr ? data : reinterpret_cast<uint8_t*>(*record) + SizeOf((*record)->kind);
  if (next >= data + valid) return CUPTI_ERROR_MAX_LIMIT_REACHED;
  *record = reinterpret_cast<CUpti_Activity*>(next);
  return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext /*context*/, uint32_t /*stream*/,
                                              size_t* dropped) {
  *dropped = num_dropped;
  num_dropped = 0;
  return CUPTI_SUCCESS;
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle /*subscriber*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiEnableDomain(uint32_t /*on*/, CUpti_SubscriberHandle /*subscriber*/,
                              CUpti_CallbackDomain /*domain*/) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiEnableCallback(uint32_t /*on*/, CUpti_SubscriberHandle /*subscriber*/,
                                CUpti_CallbackDomain /*domain*/, CUpti_CallbackId /*id*/) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType /*type*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute /*attribute*/, size_t* /*size*/,
                                      void* /*value*/) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityGetAttribute(CUpti_ActivityAttribute /*attribute*/, size_t* /*size*/,
                                      void* /*value*/) {
  return CUPTI_ERROR_INVALID_PARAMETER;
}
CUptiResult cuptiActivityEnable(CUpti_ActivityKind /*kind*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityDisable(CUpti_ActivityKind /*kind*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind /*kind*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId /*id*/, uint8_t /*on*/) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId /*id*/, uint8_t /*on*/) {
  return CUPTI_SUCCESS;
}
CUptiResult cuptiActivityEnableAllSyncRecords(uint8_t /*on*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t /*on*/) { return CUPTI_SUCCESS; }
CUptiResult cuptiGetStreamIdEx(CUcontext /*context*/, CUstream /*stream*/, uint8_t /*per_thread*/,
                               uint32_t* id) {
  *id = 0;
  return CUPTI_SUCCESS;
}
CUptiResult cuptiGetContextId(CUcontext /*context*/, uint32_t* id) {
  *id = 1;
  return CUPTI_SUCCESS;
}
