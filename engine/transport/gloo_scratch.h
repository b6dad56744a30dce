// What collectives over Gloo take for themselves: apart from the transport, so that it is known
// without LibTorch too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan/op.h"

namespace shardscope::transport {

inline constexpr size_t kSmallReduceBytes = 64 << 10;  // below, latency costs more than bytes
inline constexpr size_t kScratchAlignment = 64;

// Most that a call of `pieces` pieces takes for what other ranks send to be summed. A section of a
// piece is rounded up to whole elements, then to the alignment.
inline int64_t GlooScratchBytes(plan::OpKind kind, int64_t payload_bytes, int64_t pieces,
                                int num_ranks) {
  constexpr int64_t kRounding = kScratchAlignment + sizeof(double);
  const int64_t ranks = num_ranks;
  const bool is_small = payload_bytes <= static_cast<int64_t>(kSmallReduceBytes);
  if (kind == plan::OpKind::kAllReduce && is_small) {
    return ranks * (payload_bytes + pieces * kRounding);
  }
  if (!plan::TraitsOf(kind).reduces) return 0;
  return (ranks - 1) * (payload_bytes / ranks + pieces * kRounding);
}

}  // namespace shardscope::transport
