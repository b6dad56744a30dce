// The passes that BuildSchedule runs over a strategy's step, in the order of this file. Each leaves
// a valid Schedule.
#pragma once

#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"

namespace shardscope::plan {

// Issues all-gathers of the units that backward needs next. PRE: after a unit's own parameters are
// there, before its backward ops, the gathers of the next `depth` units of backward. POST: after
// the unit's reshard, before its reduce-scatter. None: no change. A unit that has a list issues
// those gathers at PRE's place, and no others. A gather that is issued already stays where it is;
// nothing crosses from one backward to another.
void BackwardPrefetchPass(const Policy& policy, Schedule* schedule);

// The same in forward: after a unit's own parameters are there, before its forward ops, the gathers
// of the next `forward_prefetch` units, or of those in its list. Nothing crosses from one
// micro-batch to another.
void ForwardPrefetchPass(const Policy& policy, Schedule* schedule);

// FSDP1's limiter. Every reshard leaves a "free event" in a queue; a gather that finds `limit` or
// more of them takes the oldest and waits for it on the host before it takes memory for the unit's
// parameters (FSDP1: limit 2, _limiter_utils.py). 0: no limit.
void RateLimitPass(int limit, Schedule* schedule);

// A host that issues only so many compute ops before they have run, as a CPU-bound or synchronising
// program does: after a forward or backward op it blocks until the one `limit` compute ops earlier
// has ended; 0 waits for each op itself. -1: the host never waits.
void RunAheadPass(int limit, Schedule* schedule);

}  // namespace shardscope::plan
