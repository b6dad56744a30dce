// Tags: which call a message belongs to, so that none is taken for another's.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "engine/transport/transport.h"

namespace shardscope::transport {

enum class Kind : uint8_t { kAllGather, kReduceScatter, kAllReduce, kAllReduceGather, kBroadcast };
std::string_view NameOf(Kind kind);

// The communicator above, below a digest of what all ranks must agree on: kind, sizes of the
// pieces, dtype, scale. In a communicator messages follow one another in order. Never negative.
int TagOf(Kind kind, int communicator, std::span<const GatherPiece> pieces);
int TagOf(Kind kind, int communicator, std::span<const ReducePiece> pieces,
          const Reduction& reduction);
int TagOf(Kind kind, int communicator, std::span<const AllReducePiece> pieces,
          const Reduction& reduction);
int TagOf(Kind kind, int communicator, std::span<const BroadcastPiece> pieces);

// The tag of a call that looks so: ranks that are at different ops do not take each other's data.
int TagAt(std::string_view op_name, int tag);

}  // namespace shardscope::transport
