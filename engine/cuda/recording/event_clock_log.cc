#include "engine/cuda/recording/event_clock_log.h"

#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::cuda {

void EventClockLog::SetRecorder(record::Recorder* recorder) {
  const MutexLock lock(mutex_);
  recorder_ = recorder;
}

void EventClockLog::Add(int rank, int device, int64_t time_ns, int64_t uncertainty_ns) {
  const MutexLock lock(mutex_);
  if (recorder_ == nullptr) return;
  const auto [last, is_first] = last_ns_.try_emplace(rank, time_ns);
  if (!is_first && time_ns - last->second < kNsPerSecond) return;
  last->second = time_ns;
  recorder_->Add(schema::GpuClockRow{.rank = rank,
                                     .device = device,
                                     .method = "events",
                                     .time_ns = time_ns,
                                     .low_ns = -uncertainty_ns,
                                     .high_ns = uncertainty_ns});
}

}  // namespace shardscope::cuda
