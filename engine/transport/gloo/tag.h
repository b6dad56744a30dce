// Tags: which call a message belongs to, so that none is taken for another's.
#pragma once

#include <span>
#include <string_view>

#include "engine/transport/transport.h"
#include "trace/base/words.h"

namespace shardscope::transport {

// The communicator above, below a digest of what all ranks must agree on: kind, sizes of the
// pieces, dtype, scale. In a communicator messages follow one another in order. Never negative.
int TagOf(words::OpKind kind, int communicator, std::span<const GatherPiece> pieces);
int TagOf(words::OpKind kind, int communicator, std::span<const ReducePiece> pieces,
          const Reduction& reduction);
// `is_second_half`: of an all-reduce in two rounds, the one that gathers what the first has summed.
int TagOf(words::OpKind kind, int communicator, std::span<const AllReducePiece> pieces,
          const Reduction& reduction, bool is_second_half = false);
int TagOf(words::OpKind kind, int communicator, std::span<const BroadcastPiece> pieces);

// The tag of a call that looks so: ranks that are at different ops do not take each other's data.
int TagAt(std::string_view op_name, int tag);

}  // namespace shardscope::transport
