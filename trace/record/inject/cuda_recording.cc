#include "trace/record/inject/cuda_recording.h"

#include <fmt/format.h>

#include "trace/base/time.h"

namespace shardscope::inject {
namespace {

constexpr int64_t kLagNs = 300 * kNsPerMs;

}  // namespace

void CudaRecording::Add(const cupti::Batch& batch, const cupti::Names& names) {
  names_ = &names;
  for (const cupti::StreamInfo& stream : batch.streams) rows_.SetPriority(stream);
  for (const cupti::MemoryOperation& operation : batch.memory) AddMemory(operation);
  joiner_.Add(batch);
  rows_.Write(joiner_.Take(MonotonicNs() - kLagNs), names);
}

void CudaRecording::Finish() {
  if (names_ != nullptr) rows_.Write(joiner_.Take(cupti::kEnd), *names_);
  rows_.Finish();
}

gpu::RowTarget::StreamTrack CudaRecording::AddStreamTrack(uint32_t device, cupti::StreamId stream) {
  StreamTrack added;
  added.track = recording_->AddTrack(
      fmt::format("GPU {} context {} stream {}", device, stream.context, stream.stream), "compute");
  return added;
}

int32_t CudaRecording::RankOfDevice(uint32_t /*device*/) {
  return static_cast<int32_t>(recording_->rank());
}

// Where no caching allocator tells of itself, the driver is the one allocator that is seen. Where
// one does, its blocks are the memory; what the driver hands out is in table memory_segment anyway.
void CudaRecording::AddMemory(const cupti::MemoryOperation& operation) {
  if (operation.kind != cupti::MemoryKind::kDevice || operation.time_ns <= 0) return;
  const std::pair segment(operation.device, operation.address);
  if (operation.bytes > 0) {
    if (operation.time_ns >= recording_->allocator_since_ns()) return;
    segments_.insert(segment);
  } else if (segments_.erase(segment) == 0) {
    return;
  }
  recording_->Memory(fmt::format("GPU {}", operation.device), operation.time_ns, operation.bytes);
}

}  // namespace shardscope::inject
