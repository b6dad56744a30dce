// Waiting with a limit that means time in which this process ran.
#pragma once

#include <chrono>
#include <cstdint>

#include "trace/base/mutex.h"

namespace shardscope {

// Waits until `predicate` holds; false if it does not within `limit_ns`. A process that was stopped
// meanwhile (Ctrl-Z, a debugger) loses at most a sixteenth of its limit each time: no thread was
// late, all stood still. `lock` is held by the caller.
template <typename Predicate>
bool WaitPatiently(CondVar* changed, MutexLock* lock, int64_t limit_ns, Predicate predicate) {
  constexpr int64_t kSlices = 16;
  const std::chrono::nanoseconds slice(limit_ns / kSlices + 1);
  for (int64_t i = 0; i < kSlices; ++i) {
    if (changed->wait_for(*lock, slice, predicate)) return true;
  }
  return false;
}

}  // namespace shardscope
