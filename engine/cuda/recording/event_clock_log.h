// EventClockLog: how far the times of CUDA events can be off, as rows of table gpu_clock: where
// CUPTI is not to be had, they are the times of ops.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/words.h"
#include "trace/record/recorder.h"

namespace shardscope::cuda {

// Threads: any.
class EventClockLog {
 public:
  // Null: no rows from now on.
  void SetRecorder(record::Recorder* recorder) {
    const MutexLock lock(mutex_);
    recorder_ = recorder;
  }

  // A step of `rank` has ended, whose times may be off by so much either way, all alike. At most
  // one row a second and rank.
  void Add(int rank, int device, int64_t time_ns, int64_t uncertainty_ns) {
    const MutexLock lock(mutex_);
    if (recorder_ == nullptr) return;
    const auto [last, is_first] = last_ns_.try_emplace(rank, time_ns);
    if (!is_first && time_ns - last->second < kNsPerSecond) return;
    last->second = time_ns;
    recorder_->Add(
        schema::GpuClockRow{.rank = rank,
                            .device = device,
                            .method = std::string(words::Name(words::GpuClockMethod::kEvents)),
                            .time_ns = time_ns,
                            .low_ns = -uncertainty_ns,
                            .high_ns = uncertainty_ns});
  }

 private:
  Mutex mutex_;
  record::Recorder* recorder_ GUARDED_BY(mutex_) = nullptr;
  std::map<int, int64_t> last_ns_ GUARDED_BY(mutex_);  // by rank
};

}  // namespace shardscope::cuda
