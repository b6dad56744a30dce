// Backward prefetch: issues all-gathers of the units that backward needs next.
#pragma once

#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"

namespace shardscope::plan {

// PRE: after a unit's own parameters are there, before its backward ops, the gathers of the next
// `depth` units of backward. POST: after the unit's reshard, before its reduce-scatter. None: no
// change. A gather that is issued already stays where it is; nothing crosses from one backward to
// another.
void BackwardPrefetchPass(BackwardPrefetch mode, int depth, Schedule* schedule);

}  // namespace shardscope::plan
