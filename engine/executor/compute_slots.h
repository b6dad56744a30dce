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
  void WaitForTurn(std::unique_lock<std::mutex>* lock, uint64_t ticket);

  const int64_t patience_ns_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  int free_;
  int slots_;
  uint64_t next_ticket_ = 0;
  uint64_t serving_ = 0;
  uint64_t num_released_ = 0;
  bool is_aborted_ = false;
};

}  // namespace shardscope::executor
