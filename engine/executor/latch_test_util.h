// For tests: something one thread waits for and another makes happen.
#pragma once

#include <chrono>
#include <cstdint>

#include "trace/base/mutex.h"

namespace shardscope::executor {

class Latch {
 public:
  void Open() {
    const MutexLock lock(mutex_);
    is_open_ = true;
    changed_.notify_all();
  }
  // Whether it was opened in time.
  bool WaitFor(int64_t milliseconds) {
    MutexLock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::milliseconds(milliseconds),
                             [&] { return is_open_; });
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool is_open_ = false;
};

// Long enough for any machine, for what must happen; and how long to watch for what must not.
inline constexpr int64_t kMustHappenMs = 60'000;
inline constexpr int64_t kMustNotHappenMs = 100;

}  // namespace shardscope::executor
