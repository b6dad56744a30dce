// LessonSnapshot: the prefetch lesson as a Snapshot, in virtual time: pictures and tests of panels
// are made from it.
#pragma once

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// FSDP2 of a small model with the units embedding, block0, block1, block2 and head on a link of
// given bandwidth, the host waiting for every compute op (host.run_ahead=0). From step
// `prefetch_from_step` on, forward prefetch 1 and backward prefetch "pre" are on (never, if there
// is no such step). Every seventh step rank 1 is slow, and `slow_rank` in
// every step, by 10%. The same arguments give the same rows, bit
// for bit.
query::SnapshotPtr MakeLessonSnapshot(int ranks, int steps, int prefetch_from_step,
                                      int slow_rank = -1);

}  // namespace shardscope::analysis
