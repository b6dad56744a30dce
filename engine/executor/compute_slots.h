// ComputeSlots: at most N compute ops run at once in this process, so that ranks never preempt each
// other on the cores.
#pragma once

#include <cstdint>

#include "trace/base/mutex.h"

namespace shardscope::executor {

// Fair: slots go to waiters in the order in which they came. Any thread.
class ComputeSlots {
 public:
  // `patience_ns`: a wait fails if no slot is given back for so long; 0 = waits for ever.
  explicit ComputeSlots(int slots, int64_t patience_ns = 0)
      : patience_ns_(patience_ns), free_(slots), slots_(slots) {}

  // Blocks until a slot is free. Returns the nanoseconds it waited. Throws std::runtime_error if
  // patience is over or Abort() was called.
  int64_t Acquire();
  void Release();

  // Ends all waits, present and future.
  void Abort();

  // Takes effect at once for new waiters (live knob engine.compute_slots).
  void SetSlots(int slots);

  // Threads that wait in Acquire() right now.
  int num_waiting() const;

 private:
  void WaitForTurn(MutexLock* lock, uint64_t ticket) REQUIRES(mutex_);

  const int64_t patience_ns_;
  mutable Mutex mutex_;
  CondVar changed_;
  int free_ GUARDED_BY(mutex_);
  int slots_ GUARDED_BY(mutex_);
  uint64_t next_ticket_ GUARDED_BY(mutex_) = 0;
  uint64_t serving_ GUARDED_BY(mutex_) = 0;
  uint64_t num_released_ GUARDED_BY(mutex_) = 0;
  bool is_aborted_ GUARDED_BY(mutex_) = false;
};

}  // namespace shardscope::executor
