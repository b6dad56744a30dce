// GpuLog: the DeviceLog over CUPTI: tells the recorder which op each call of a rank's host thread
// belongs to, and asks it when the GPU worked for an op.
//
//   rank's host thread   OnBegin, OnIssued for every op, TakeStep at the end of the step
//   CUPTI's decode thread Add
//   main thread          Open once the trace is there, Close before it is finished
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/cuda/device/device_log.h"
#include "trace/base/mutex.h"
#include "trace/record/gpu/gpu_recorder.h"

namespace shardscope::cuda {

struct GpuLogOptions {
  // What CUPTI calls a stream. On the thread whose device it is on.
  std::function<cupti::StreamId(Stream stream)> id_of_stream;
  // Asks CUPTI for its records; may be null.
  std::function<void()> flush;
  // The rank whose memory the driver hands out on a device; null: rank 0.
  std::function<int32_t(uint32_t device)> rank_of_device;
};

class GpuLog : public DeviceLog {
 public:
  explicit GpuLog(GpuLogOptions options);
  ~GpuLog() override;

  // What comes before Open() or after Close() has no rows, but for the ledger of the driver's
  // memory and the priorities of streams, which hold from then on; a note counts the rest of what
  // came before. Schedules that ops name outlive Close().
  void Open(record::Recorder* recorder, executor::OpIds ids);
  // CUPTI has stopped, and its session has not ended.
  gpu::GpuCounts Close();

  // Between steps: whether what is issued from now on is joined and recorded.
  void SetRecording(bool is_recording) { is_recording_ = is_recording; }

  void Add(const cupti::Batch& batch, const cupti::Names& names);

  void OnStream(int /*rank*/, Stream /*stream*/) override {}  // known by its first op
  void OnBegin(const executor::OpContext& context) override;
  void OnIssued(const cupti::HostOp& op) override;
  // In steps that are not recorded too: memory is told always.
  void OnNccl(const gpu::NcclRange& call) override;
  std::vector<DeviceInterval> TakeStep(int rank, int64_t step, size_t num_ops) override;

 private:
  // A Schedule that a rank runs from a step on.
  struct ScheduleOps {
    const plan::Schedule* schedule = nullptr;
    std::vector<gpu::OpIdentity> ops;  // without the step
  };
  struct Host {
    uint32_t thread = 0;
    int64_t issued_until_ns = 0;
    std::map<int64_t, ScheduleOps> schedules;    // by first step
    std::map<int64_t, ScheduleOps> evaluations;  // by first batch, which count down from -2: -batch

    static bool IsBatch(int64_t step) { return step < -1; }
    auto& SchedulesOf(int64_t step) { return IsBatch(step) ? evaluations : schedules; }
    const auto& SchedulesOf(int64_t step) const { return IsBatch(step) ? evaluations : schedules; }
    static int64_t PlaceOf(int64_t step) { return IsBatch(step) ? -step : step; }
  };

  // Of the time before Open().
  struct Early {
    std::vector<cupti::MemoryOperation> memory;
    std::vector<cupti::StreamInfo> streams;
    size_t works = 0;  // kernels and copies
  };

  void Keep(const cupti::Batch& batch);
  void EnterSchedule(const executor::OpContext& context, Host* host) REQUIRES(mutex_);
  gpu::OpIdentity IdentityOf(int64_t key) const;
  void OwnStream(const executor::OpContext& context);
  std::shared_ptr<gpu::GpuRecorder> recorder() const;

  const GpuLogOptions options_;
  std::atomic<bool> is_recording_ = true;
  mutable Mutex mutex_;  // the recorder is never called under it
  std::shared_ptr<gpu::GpuRecorder> gpu_ GUARDED_BY(mutex_);
  record::Recorder* trace_ GUARDED_BY(mutex_) = nullptr;  // while open
  Early early_ GUARDED_BY(mutex_);                        // until the first batch after Open()
  executor::OpIds ids_ GUARDED_BY(mutex_);
  std::map<int, Host> hosts_ GUARDED_BY(mutex_);  // by rank
  std::map<Stream, int> owned_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::cuda
