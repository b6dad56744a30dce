// HostOp: which host thread issued which op when; GPU work is joined to ops by it.
#pragma once

#include <cstdint>

namespace shardscope::cupti {

// An interval in which one thread issued work of one op. Intervals of a thread may nest, but not
// cross: a transport whose last rank enqueues for all logs one for each other rank inside that
// rank's own.
struct HostOp {
  int64_t key = 0;      // the caller's name for the op run; >= 0
  uint32_t thread = 0;  // gettid
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

}  // namespace shardscope::cupti
