// Link: the emulated wire. Plain arithmetic over time, without waiting.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/transport/transport.h"
#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::transport {

// Every rank has a wire of its own, which all its communicators share but those with another link.
// Threads: any.
class Link {
 public:
  Link(int num_ranks, double bytes_per_second, int64_t latency_ns) {
    free_from_ns_.fill(std::vector<int64_t>(static_cast<size_t>(num_ranks)));
    Set(bytes_per_second, latency_ns);
  }

  // Reserves the wires of `ranks` for a collective whose last rank arrived at `arrival_ns` and that
  // sends `wire_bytes` from each rank. Returns when it ends:
  //   max(arrival, end of the last collective of any of them) + latency + bytes / bandwidth.
  int64_t Reserve(std::span<const int> ranks, int64_t arrival_ns, int64_t wire_bytes,
                  const CallLink& link = {}) {
    const MutexLock lock(mutex_);
    const double rate = link.bytes_per_second > 0 ? link.bytes_per_second : bytes_per_second_;
    const int64_t latency_ns = link.latency_ns >= 0 ? link.latency_ns : latency_ns_;
    const double seconds = static_cast<double>(wire_bytes) / rate;
    const auto transfer_ns = static_cast<int64_t>(std::ceil(seconds * kNsPerSecond));
    std::vector<int64_t>& free_from_ns = free_from_ns_[static_cast<size_t>(link.wire)];
    int64_t start_ns = arrival_ns;
    for (const int rank : ranks) {
      start_ns = std::max(start_ns, free_from_ns[static_cast<size_t>(rank)]);
    }
    const int64_t end_ns = start_ns + latency_ns + transfer_ns;
    for (const int rank : ranks) free_from_ns[static_cast<size_t>(rank)] = end_ns;
    return end_ns;
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
  std::array<std::vector<int64_t>, kNumWires> free_from_ns_ GUARDED_BY(mutex_);  // by wire, rank
};

}  // namespace shardscope::transport
