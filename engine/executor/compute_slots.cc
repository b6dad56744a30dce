#include "engine/executor/compute_slots.h"

#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::executor {

int64_t ComputeSlots::Acquire() {
  std::unique_lock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  const auto is_my_turn = [&] { return serving_ == ticket && free_ > 0; };
  int64_t waited_ns = 0;
  if (!is_my_turn()) {
    const int64_t from_ns = MonotonicNs();
    changed_.wait(lock, is_my_turn);
    waited_ns = MonotonicNs() - from_ns;
  }
  ++serving_;
  --free_;
  // The next ticket may have been waiting for its turn only, with a slot free.
  if (free_ > 0 && serving_ != next_ticket_) changed_.notify_all();
  return waited_ns;
}

void ComputeSlots::Release() {
  const std::lock_guard lock(mutex_);
  ++free_;
  if (serving_ != next_ticket_) changed_.notify_all();
}

void ComputeSlots::SetSlots(int slots) {
  SHARDSCOPE_CHECK(slots > 0);
  const std::lock_guard lock(mutex_);
  // May be negative for a while: slots taken under the old limit are given back first.
  free_ += slots - slots_;
  slots_ = slots;
  changed_.notify_all();
}

int ComputeSlots::num_waiting() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(next_ticket_ - serving_);
}

}  // namespace shardscope::executor
