// ComputeSlots: at most N compute ops run at once in this process, so that ranks never preempt each
// other on the cores.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

namespace shardscope::executor {

// Fair: slots go to waiters in the order in which they came. Any thread.
class ComputeSlots {
 public:
  explicit ComputeSlots(int slots) : free_(slots), slots_(slots) {}

  // Blocks until a slot is free. Returns the nanoseconds it waited.
  int64_t Acquire();
  void Release();

  // Takes effect at once for new waiters (live knob engine.compute_slots).
  void SetSlots(int slots);

  // Threads that wait in Acquire() right now.
  int num_waiting() const;

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  int free_;
  int slots_;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
};

}  // namespace shardscope::executor
