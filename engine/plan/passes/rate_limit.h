// Rate limit: FSDP1's limiter. The host blocks before it issues a gather while too many unsharded
// units are in flight.
#pragma once

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// Every reshard leaves a "free event" in a queue; a gather that finds `limit` or more of them takes
// the oldest and waits for it on the host before it takes memory for the unit's parameters (FSDP1:
// limit 2, _limiter_utils.py). 0: no limit.
void RateLimitPass(int limit, Schedule* schedule);

}  // namespace shardscope::plan
