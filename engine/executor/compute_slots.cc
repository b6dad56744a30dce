#include "engine/executor/compute_slots.h"

#include <stdexcept>
#include <string>

#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/base/wait.h"

namespace shardscope::executor {

// Patience starts again whenever a slot is given back: a long queue that moves is no fault.
void ComputeSlots::WaitForTurn(MutexLock* lock, uint64_t ticket) {
  const auto may_go = [&]() REQUIRES(mutex_) {
    return is_aborted_ || (serving_ == ticket && free_ > 0);
  };
  while (!may_go()) {
    const uint64_t seen = num_released_;
    const auto moves = [&]() REQUIRES(mutex_) { return may_go() || num_released_ != seen; };
    if (patience_ns_ == 0) {
      changed_.wait(*lock, may_go);
    } else if (!WaitPatiently(&changed_, lock, patience_ns_, moves)) {
      is_aborted_ = true;
      changed_.notify_all();
      throw std::runtime_error("waited for a compute slot, but none of the " +
                               std::to_string(slots_) + " was given back for " +
                               FormatDuration(patience_ns_) + " (comm.timeout)");
    }
  }
  if (is_aborted_) throw std::runtime_error("aborted while it waited for a compute slot");
}

int64_t ComputeSlots::Acquire() {
  MutexLock lock(mutex_);
  const uint64_t ticket = next_ticket_++;
  int64_t waited_ns = 0;
  if (serving_ != ticket || free_ <= 0 || is_aborted_) {
    const int64_t from_ns = MonotonicNs();
    WaitForTurn(&lock, ticket);
    waited_ns = MonotonicNs() - from_ns;
  }
  ++serving_;
  --free_;
  // The next ticket may have been waiting for its turn only, with a slot free.
  if (free_ > 0 && serving_ != next_ticket_) changed_.notify_all();
  return waited_ns;
}

void ComputeSlots::Release() {
  const MutexLock lock(mutex_);
  ++free_;
  ++num_released_;
  if (serving_ != next_ticket_) changed_.notify_all();
}

void ComputeSlots::Abort() {
  const MutexLock lock(mutex_);
  is_aborted_ = true;
  changed_.notify_all();
}

void ComputeSlots::SetSlots(int slots) {
  SHARDSCOPE_CHECK(slots > 0);
  const MutexLock lock(mutex_);
  // May be negative for a while: slots taken under the old limit are given back first.
  free_ += slots - slots_;
  slots_ = slots;
  changed_.notify_all();
}

int ComputeSlots::num_waiting() const {
  const MutexLock lock(mutex_);
  return static_cast<int>(next_ticket_ - serving_);
}

}  // namespace shardscope::executor
