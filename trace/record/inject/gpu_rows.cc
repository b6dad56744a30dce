#include "trace/record/inject/gpu_rows.h"

#include <fmt/format.h>

#include <string>

namespace shardscope::inject {
namespace {

// NCCL's kernels are told by name only: what a kernel name says beyond that is not true
// (one kernel stands for many algorithms).
bool IsNcclKernel(std::string_view name) {
  return name.starts_with("ncclDevKernel") || name.starts_with("ncclSymk");
}

std::string_view NameOf(cupti::CopyKind kind) {
  switch (kind) {
    case cupti::CopyKind::kHostToDevice:
      return "copy host to device";
    case cupti::CopyKind::kDeviceToHost:
      return "copy device to host";
    case cupti::CopyKind::kDeviceToDevice:
      return "copy on device";
    case cupti::CopyKind::kPeer:
      return "copy to another device";
    case cupti::CopyKind::kSet:
      return "set memory";
    case cupti::CopyKind::kOther:
      break;
  }
  return "copy";
}

}  // namespace

void GpuRows::Add(const cupti::Batch& batch, const cupti::Names& names) {
  for (const cupti::Kernel& kernel : batch.kernels) AddKernel(kernel, names);
  for (const cupti::Copy& copy : batch.copies) AddCopy(copy);
  for (const cupti::MemoryOperation& operation : batch.memory) AddMemory(operation);
}

int64_t GpuRows::Track(uint32_t device, cupti::StreamId stream) {
  int64_t& track = tracks_[{device, stream}];
  if (track == 0) {
    track = recording_->AddTrack(
        fmt::format("GPU {} context {} stream {}", device, stream.context, stream.stream),
        "compute");
  }
  return track;
}

void GpuRows::AddSpan(int64_t track, int64_t start_ns, int64_t end_ns, int64_t name,
                      std::string_view category) {
  if (start_ns <= 0 || end_ns < start_ns) {
    ++without_times_;
    return;
  }
  recording_->Span(track, start_ns, end_ns, name, category);
}

void GpuRows::AddKernel(const cupti::Kernel& kernel, const cupti::Names& names) {
  const auto [entry, is_new] = kernel_names_.try_emplace(kernel.name);
  if (is_new) {
    const std::string name = cupti::Demangle(names.Text(kernel.name));
    entry->second = {recording_->Name(name), IsNcclKernel(name)};
  }
  AddSpan(Track(kernel.device, kernel.stream), kernel.start_ns, kernel.end_ns, entry->second.name,
          entry->second.communication ? "communication" : "compute");
}

void GpuRows::AddCopy(const cupti::Copy& copy) {
  AddSpan(Track(copy.device, copy.stream), copy.start_ns, copy.end_ns,
          recording_->Name(NameOf(copy.kind)), "copy");
}

// What a caching allocator does inside its segments is not seen here.
void GpuRows::AddMemory(const cupti::MemoryOperation& operation) {
  if (operation.kind != cupti::MemoryKind::kDevice || operation.time_ns <= 0) return;
  recording_->Memory(fmt::format("GPU {}", operation.device), operation.time_ns, operation.bytes);
}

}  // namespace shardscope::inject
