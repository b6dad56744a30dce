// Buffers as CUPTI hands them out, made by hand: for tests of decoder and joiner.
#pragma once

#include <cstring>
#include <vector>

#include "trace/record/cupti/functions.h"

namespace shardscope::cupti {

// Records one behind the other, as in a completed buffer. 8-aligned.
class SyntheticBuffer {
 public:
  template <typename Record>
  void Append(const Record& record) {
    const size_t at = words_.size();
    words_.resize(at + sizeof(Record) / sizeof(uint64_t));
    std::memcpy(words_.data() + at, &record, sizeof(Record));
  }
  uint8_t* data() { return reinterpret_cast<uint8_t*>(words_.data()); }
  size_t size() const { return words_.size() * sizeof(uint64_t); }

 private:
  std::vector<uint64_t> words_;
};

inline CUpti_ActivityKernel10 KernelRecord(uint64_t start, uint64_t end, uint32_t stream,
                                           uint32_t correlation, const char* name) {
  CUpti_ActivityKernel10 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = start;
  record.end = end;
  record.contextId = 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.name = name;
  return record;
}

inline CUpti_ActivityAPI CallRecord(uint64_t start, uint64_t end, uint32_t thread,
                                    uint32_t correlation, bool driver = false) {
  CUpti_ActivityAPI record = {};
  record.kind = driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  record.start = start;
  record.end = end;
  record.threadId = thread;
  record.correlationId = correlation;
  return record;
}

inline CUpti_ActivityMemcpy6 CopyRecord(uint64_t start, uint64_t end, uint32_t stream,
                                        uint32_t correlation, uint64_t bytes) {
  CUpti_ActivityMemcpy6 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  record.start = start;
  record.end = end;
  record.contextId = 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.bytes = bytes;
  return record;
}

inline CUpti_ActivityCudaEvent2 EventRecordRecord(uint32_t stream, uint32_t correlation,
                                                  uint64_t recording) {
  CUpti_ActivityCudaEvent2 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.contextId = 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.eventId = 7;  // reused by every recording, as real programs do
  record.cudaEventSyncId = recording;
  return record;
}

inline CUpti_ActivitySynchronization2 StreamWaitRecord(uint64_t time, uint32_t stream,
                                                       uint32_t correlation, uint64_t recording) {
  CUpti_ActivitySynchronization2 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  record.start = time;
  record.end = time;
  record.contextId = 1;
  record.streamId = stream;
  record.correlationId = correlation;
  record.cudaEventId = 7;
  record.cudaEventSyncId = recording;
  return record;
}

}  // namespace shardscope::cupti
