// Forward prefetch: issues all-gathers of the units that forward needs next.
#pragma once

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// After a unit's own parameters are there, before its forward ops, the gathers of the next `depth`
// units. Nothing crosses from one micro-batch to another.
void ForwardPrefetchPass(int depth, Schedule* schedule);

}  // namespace shardscope::plan
