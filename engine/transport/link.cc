#include "engine/transport/link.h"

#include <algorithm>
#include <cmath>

#include "trace/base/check.h"
#include "trace/base/mutex.h"
#include "trace/base/time.h"

namespace shardscope::transport {

int64_t Link::Reserve(int64_t arrival_ns, int64_t wire_bytes) {
  const MutexLock lock(mutex_);
  const double seconds = static_cast<double>(wire_bytes) / bytes_per_second_;
  const auto transfer_ns = static_cast<int64_t>(std::ceil(seconds * kNsPerSecond));
  free_from_ns_ = std::max(arrival_ns, free_from_ns_) + latency_ns_ + transfer_ns;
  return free_from_ns_;
}

void Link::Set(double bytes_per_second, int64_t latency_ns) {
  SHARDSCOPE_CHECK(bytes_per_second > 0 && latency_ns >= 0);
  const MutexLock lock(mutex_);
  bytes_per_second_ = bytes_per_second;
  latency_ns_ = latency_ns;
}

}  // namespace shardscope::transport
