#include "tests/golden/gpu_records.h"

#include <cstring>
#include <vector>

namespace shardscope::golden {

template <typename Record>
void GpuRecords::Add(const Record& record) {
  std::vector<uint64_t> words(sizeof(Record) / sizeof(uint64_t));
  std::memcpy(words.data(), &record, sizeof record);
  scenario_.records.push_back(std::move(words));
}

uint32_t GpuRecords::AddCall(int rank, CUpti_CallbackId callback, int64_t* host_ns,
                             int64_t until_ns) {
  CUpti_ActivityAPI record = {};
  record.kind =
      callback == kDriverLaunch ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  record.cbid = callback;
  record.start = static_cast<uint64_t>(*host_ns);
  *host_ns = until_ns > 0 ? until_ns : *host_ns + costs_.call_ns;
  record.end = static_cast<uint64_t>(*host_ns);
  record.threadId = ThreadOf(rank);
  record.correlationId = ++correlation_;
  Add(record);
  return record.correlationId;
}

void GpuRecords::AddStart(int rank, const DeviceBytes& device, int64_t* host_ns) {
  for (uint64_t i = 0; i < 2; ++i) {
    CUpti_ActivityMemory4 record = {};
    record.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
    record.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
    record.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
    record.address = (1 + i) << 32;
    record.bytes = static_cast<uint64_t>(i == 0 ? device.allocator : device.others);
    record.deviceId = static_cast<uint32_t>(rank);
    record.contextId = StreamOf(rank, 0).context;
    record.timestamp = static_cast<uint64_t>(*host_ns);
    record.correlationId = AddCall(rank, kMalloc, host_ns);
    Add(record);
  }
  CUpti_ActivityOverhead3 overhead = {};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE;
  overhead.start = static_cast<uint64_t>(*host_ns);
  overhead.end = overhead.start + 30'000;
  Add(overhead);
}

uint64_t GpuRecords::AddEvent(int rank, plan::StreamIndex stream, plan::OpIndex op, int64_t time_ns,
                              int64_t* host_ns) {
  CUpti_ActivityCudaEvent2 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  record.correlationId = AddCall(rank, kEventRecord, host_ns);
  record.contextId = StreamOf(rank, stream).context;
  record.streamId = StreamOf(rank, stream).stream;
  record.eventId = static_cast<uint32_t>(op);  // used again in every step
  record.cudaEventSyncId = ++recording_;
  record.deviceTimestamp = static_cast<uint64_t>(time_ns);
  Add(record);
  return recording_;
}

void GpuRecords::AddStreamWait(int rank, plan::StreamIndex stream, plan::OpIndex target,
                               uint64_t recording, int64_t* host_ns) {
  CUpti_ActivitySynchronization2 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  record.start = record.end = static_cast<uint64_t>(*host_ns);
  record.correlationId = AddCall(rank, kStreamWait, host_ns);
  record.contextId = StreamOf(rank, stream).context;
  record.streamId = StreamOf(rank, stream).stream;
  record.cudaEventId = static_cast<uint32_t>(target);
  record.cudaEventSyncId = recording;
  Add(record);
}

void GpuRecords::AddHostWait(int rank, plan::StreamIndex stream, int64_t until_ns,
                             int64_t* host_ns) {
  CUpti_ActivitySynchronization2 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  record.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  record.start = static_cast<uint64_t>(*host_ns);
  record.correlationId = AddCall(rank, kStreamSynchronize, host_ns, until_ns);
  record.end = static_cast<uint64_t>(*host_ns);
  record.contextId = StreamOf(rank, stream).context;
  record.streamId = StreamOf(rank, stream).stream;
  record.cudaEventSyncId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  Add(record);
}

void GpuRecords::AddKernel(int rank, const plan::Op& op, const std::string& name, int64_t start_ns,
                           int64_t end_ns, uint32_t correlation) {
  CUpti_ActivityKernel10 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  record.start = static_cast<uint64_t>(start_ns);
  record.end = static_cast<uint64_t>(end_ns);
  record.deviceId = static_cast<uint32_t>(rank);
  record.contextId = StreamOf(rank, op.stream).context;
  record.streamId = StreamOf(rank, op.stream).stream;
  record.correlationId = correlation;
  record.name = scenario_.names.emplace_back(name).c_str();
  const bool is_collective = op.communicator != plan::kNone;
  record.gridX = is_collective ? 16 : 132;
  record.gridY = is_collective ? 1 : 2;
  record.gridZ = 1;
  record.blockX = is_collective ? 512 : 256;
  record.blockY = record.blockZ = 1;
  record.registersPerThread = is_collective ? 96 : 168;
  record.staticSharedMemory = 1024;
  record.dynamicSharedMemory = is_collective ? 0 : 98'304;
  record.channelID = 8 + static_cast<uint32_t>(op.stream);
  record.channelType = CUPTI_CHANNEL_TYPE_COMPUTE;
  Add(record);
}

void GpuRecords::AddCopy(int rank, const plan::Op& op, int64_t start_ns, int64_t end_ns,
                         uint32_t correlation) {
  CUpti_ActivityMemcpy6 record = {};
  record.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  record.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  record.start = static_cast<uint64_t>(start_ns);
  record.end = static_cast<uint64_t>(end_ns);
  record.deviceId = static_cast<uint32_t>(rank);
  record.contextId = StreamOf(rank, op.stream).context;
  record.streamId = StreamOf(rank, op.stream).stream;
  // Its own id is one that no call has: the driver's, of which no record was asked for.
  record.correlationId = 0x40000000U + correlation;
  record.runtimeCorrelationId = correlation;
  record.bytes = 1 << 20;
  record.channelID = 3;
  record.channelType = CUPTI_CHANNEL_TYPE_ASYNC_MEMCPY;
  Add(record);
}

}  // namespace shardscope::golden
