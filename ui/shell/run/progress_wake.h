// ProgressWake: wakes the owner of what takes long so that it shows how far it is, ten times a
// second at most, however often there is progress.
//
// Threads: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "trace/base/time.h"

namespace shardscope::shell {

class ProgressWake {
 public:
  static constexpr int64_t kEveryNs = 100 * kNsPerMs;

  // `wake` may be empty.
  explicit ProgressWake(std::function<void()> wake) : wake_(std::move(wake)) {}

  // There is progress: wakes unless that was so less than kEveryNs before `now_ns`.
  void Tell(int64_t now_ns = MonotonicNs()) {
    int64_t woken_ns = woken_ns_;
    const bool is_due = now_ns - woken_ns >= kEveryNs;
    if (is_due && woken_ns_.compare_exchange_strong(woken_ns, now_ns) && wake_) wake_();
  }

 private:
  const std::function<void()> wake_;
  std::atomic<int64_t> woken_ns_ = 0;
};

}  // namespace shardscope::shell
