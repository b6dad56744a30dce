// GpuRows: decoded CUPTI records as rows: kernels and copies as spans, one track a stream, and
// device memory as the driver hands it out. A foreign program has no Schedule, so these belong to
// no op.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "trace/record/cupti/activity.h"
#include "trace/record/cupti/names.h"
#include "trace/record/inject/process_recording.h"

namespace shardscope::inject {

// One thread, but for without_times().
class GpuRows {
 public:
  explicit GpuRows(ProcessRecording* recording) : recording_(recording) {}

  void Add(const cupti::Batch& batch, const cupti::Names& names);

  int64_t without_times() const { return without_times_; }

 private:
  int64_t Track(uint32_t device, cupti::StreamId stream);
  void AddKernel(const cupti::Kernel& kernel, const cupti::Names& names);
  void AddCopy(const cupti::Copy& copy);
  void AddMemory(const cupti::MemoryOperation& operation);
  void AddSpan(int64_t track, int64_t start_ns, int64_t end_ns, int64_t name,
               std::string_view category);

  struct KernelName {
    int64_t name = 0;
    bool communication = false;
  };

  ProcessRecording* const recording_;
  std::map<std::pair<uint32_t, cupti::StreamId>, int64_t> tracks_;
  std::unordered_map<int32_t, KernelName> kernel_names_;  // by the decoder's number
  std::atomic<int64_t> without_times_ = 0;
};

}  // namespace shardscope::inject
