// Gate: a wake that holds the thread that calls it. Test support.
#pragma once

#include <chrono>

#include "trace/base/mutex.h"

namespace shardscope::shell {

// Holds whoever calls Wake() until it is opened. Nobody waits for ever: a session that cannot be
// left would be a test that hangs.
class Gate {
 public:
  void Wake() {
    MutexLock lock(mutex_);
    ++held_;
    changed_.notify_all();
    gave_up_ |= !changed_.wait_for(lock, std::chrono::seconds(20), [this] { return open_; });
    --held_;
  }
  void WaitUntilHeld() {
    MutexLock lock(mutex_);
    changed_.wait(lock, [this] { return held_ > 0; });
  }
  void Open() {
    const MutexLock lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  int held() const {
    const MutexLock lock(mutex_);
    return held_;
  }
  bool gave_up() const {
    const MutexLock lock(mutex_);
    return gave_up_;
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  int held_ = 0;
  bool open_ = false;
  bool gave_up_ = false;
};

}  // namespace shardscope::shell
