// What a rank puts on the wire for a collective: one rule for Schedules and for imported runs.
#pragma once

#include <cstdint>

#include "trace/base/words.h"

namespace shardscope::words {

// Bytes that a rank of `num_ranks` sends for a collective of `payload_bytes`, as a ring does:
// payload * (N-1)/N of N ranks, twice that for an all-reduce (the bus bandwidth of
// nccl-tests/doc/PERFORMANCE.md). Of two peers one sends all. A scatter's root sends what the
// others get, and for a gather each of them what it has. 0 where no payload is known, of a rank
// alone, and of a kind that is no collective.
inline int64_t WireBytes(OpKind kind, int64_t payload_bytes, int64_t num_ranks,
                         bool is_root = false) {
  if (payload_bytes <= 0 || num_ranks < 2) return 0;
  if (TraitsOf(kind).has_peer) return kind == OpKind::kSend ? payload_bytes : 0;
  const int64_t others = num_ranks - 1;
  if (kind == OpKind::kScatter || kind == OpKind::kGather) {
    const int64_t of_one = payload_bytes / num_ranks;
    if (is_root) return kind == OpKind::kScatter ? of_one * others : 0;
    return kind == OpKind::kGather ? of_one : 0;
  }
  // Split so that no size below 2^62 overflows.
  const int64_t sent =
      payload_bytes / num_ranks * others + payload_bytes % num_ranks * others / num_ranks;
  return TraitsOf(kind).ring_passes * sent;
}

}  // namespace shardscope::words
