// WriterCalls: what other threads want of the thread that writes a trace, and how they wait for it.
#pragma once

#include <chrono>
#include <cstdint>

#include "trace/base/mutex.h"

namespace shardscope::record {

class WriterCalls {
 public:
  // All that had been called for when the writer looked.
  struct Call {
    uint64_t flushes = 0;  // since the start
    bool stops = false;
  };

  // Once the writer's thread runs: before, Flush() waits for nothing.
  void Begin() {
    const MutexLock lock(mutex_);
    is_running_ = true;
  }

  // The writer's thread. Waits for a call, at most so long.
  Call Wait(std::chrono::milliseconds longest) {
    MutexLock lock(mutex_);
    if (!stops_ && wanted_ == done_) wake_.wait_for(lock, longest);
    return {wanted_, stops_};
  }
  // The writer's thread: what was recorded before the call is written.
  void Answer(const Call& call) { SetDone(call.flushes); }
  // The writer's thread, which ends: no wait for it goes on or begins.
  void AnswerAll() { SetDone(~uint64_t{0}); }

  // Any thread. Takes no lock, so that recording never blocks; a wake-up that comes to nothing
  // costs the length of one Wait().
  void Hurry() { wake_.notify_one(); }
  // Any thread. Returns once what was recorded before is written, or no writer is there to do it.
  void Flush() {
    MutexLock lock(mutex_);
    if (!is_running_ || stops_) return;
    const uint64_t mine = ++wanted_;
    wake_.notify_one();
    done_changed_.wait(lock, [&]() REQUIRES(mutex_) { return done_ >= mine; });
  }
  // Any thread; the writer's is joined after it.
  void Stop() {
    {
      const MutexLock lock(mutex_);
      stops_ = true;
    }
    wake_.notify_one();
  }

 private:
  void SetDone(uint64_t flushes) {
    {
      const MutexLock lock(mutex_);
      done_ = flushes;
    }
    done_changed_.notify_all();
  }

  Mutex mutex_;
  CondVar wake_;          // the writer waits here
  CondVar done_changed_;  // Flush() waits here
  bool is_running_ GUARDED_BY(mutex_) = false;
  bool stops_ GUARDED_BY(mutex_) = false;
  uint64_t wanted_ GUARDED_BY(mutex_) = 0;
  uint64_t done_ GUARDED_BY(mutex_) = 0;
};

}  // namespace shardscope::record
