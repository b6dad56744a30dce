// When the memory of a freed buffer may be handed out again, and where buffers lie if all places
// are chosen beforehand. Computed once a Schedule, from its own order alone.
//
// Note: the rule of reuse
// The host frees a buffer when it issues the op that frees it, long before the GPU gets there. What
// is handed out again at once may then be written by another stream while the old contents are
// still read. PyTorch's answer is record_stream: the allocator polls events and the peak depends on
// timing. Ours: memory is handed out again only to an op that the Schedule itself orders after the
// op that freed it (stream order, events, stream waits, communicator order, host waits). No wait is
// added, so that streams overlap as the Schedule says; nothing is polled, so that every run needs
// the same bytes at the same places. Steps are apart: the host waits for all streams at their end.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/plan/schedule.h"

namespace shardscope::cuda {

// For an allocator with one pool a stream (LibTorch's caching allocator): what is freed goes back
// to the pool of the stream that allocated it, so only the next ops of that stream matter. By op:
// the buffers to give back when the host issues it, before it allocates; the last entry, beyond all
// ops, is the end of the step. Each buffer that the program frees is in it once.
std::vector<std::vector<plan::BufferId>> FreesByOp(const plan::Schedule& schedule,
                                                   const plan::Program& program);

// Bytes that a buffer takes in the static pool, gaps included; 0: it lies elsewhere.
using BytesToPlace = std::function<int64_t(const plan::Buffer& buffer)>;

inline constexpr int64_t kNotPlaced = -1;
inline constexpr int64_t kPlaceAlignment = 512;  // bytes, as cudaMalloc's blocks of old

// Where each buffer lies in one block of memory. Two buffers overlap only if one is freed before
// the other is allocated, in the Schedule's order.
struct Placement {
  std::vector<int64_t> offsets;  // by BufferId, in bytes; kNotPlaced
  int64_t bytes = 0;             // of the block
};
Placement PlaceBuffers(const plan::Schedule& schedule, const plan::Program& program,
                       const BytesToPlace& bytes_to_place);

}  // namespace shardscope::cuda
