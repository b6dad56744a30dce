// Link: the emulated wire. Plain arithmetic over time, without waiting.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::transport {

// All ranks take part in every collective, each with a wire of its own that all its communicators
// share: the wires are always in the same state, and one stands for all. Threads: any.
class Link {
 public:
  Link(double bytes_per_second, int64_t latency_ns) { Set(bytes_per_second, latency_ns); }

  // Reserves the wire for a collective whose last rank arrived at `arrival_ns` and that sends
  // `wire_bytes` from each rank. Returns when it ends:
  //   max(arrival, end of the wire's previous collective) + latency + bytes / bandwidth.
  int64_t Reserve(int64_t arrival_ns, int64_t wire_bytes) {
    const MutexLock lock(mutex_);
    const double seconds = static_cast<double>(wire_bytes) / bytes_per_second_;
    const auto transfer_ns = static_cast<int64_t>(std::ceil(seconds * kNsPerSecond));
    free_from_ns_ = std::max(arrival_ns, free_from_ns_) + latency_ns_ + transfer_ns;
    return free_from_ns_;
  }

  // For collectives reserved from now on.
  void Set(double bytes_per_second, int64_t latency_ns) {
    SHARDSCOPE_CHECK(bytes_per_second > 0 && latency_ns >= 0);
    const MutexLock lock(mutex_);
    bytes_per_second_ = bytes_per_second;
    latency_ns_ = latency_ns;
  }

 private:
  Mutex mutex_;
  double bytes_per_second_ GUARDED_BY(mutex_) = 1;
  int64_t latency_ns_ GUARDED_BY(mutex_) = 0;
  int64_t free_from_ns_ GUARDED_BY(mutex_) = 0;
};

}  // namespace shardscope::transport
