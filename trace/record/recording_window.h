// RecordingWindow: whether rows are taken, and when they were.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::record {

// Threads: any. It is open at first.
class RecordingWindow {
 public:
  // On the way of every row: one load.
  bool is_open() const { return is_open_.load(std::memory_order_relaxed); }
  // Whether it was open then; from the newest switch on as that has left it.
  bool WasOpen(int64_t time_ns) const {
    const MutexLock lock(mutex_);
    const auto after = std::upper_bound(switches_.begin(), switches_.end(), time_ns);
    return (after - switches_.begin()) % 2 == 0;
  }

  // From now on.
  void Set(bool is_open) {
    const MutexLock lock(mutex_);
    const bool is_switched = is_open != (switches_.size() % 2 == 0);
    if (is_switched) switches_.push_back(MonotonicNs());
    is_open_.store(is_open && !is_closed_for_good_);
  }
  // Nothing more is taken, whatever is set later; what happened before it was recorded all the
  // same.
  void CloseForGood() {
    const MutexLock lock(mutex_);
    is_closed_for_good_ = true;
    is_open_.store(false);
  }

 private:
  std::atomic<bool> is_open_ = true;
  mutable Mutex mutex_;  // for switching, and for rows that come late
  bool is_closed_for_good_ GUARDED_BY(mutex_) = false;
  std::vector<int64_t> switches_ GUARDED_BY(mutex_);  // when it was closed, opened, closed, ...
};

}  // namespace shardscope::record
