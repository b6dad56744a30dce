// Run-ahead: a host that may only issue so many compute ops before they have run, as a CPU-bound or
// synchronising program does.
#pragma once

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// After issuing a forward or backward op, the host blocks until the one `limit` compute ops earlier
// has ended; 0 waits for each op itself. -1: the host never waits.
void RunAheadPass(int limit, Schedule* schedule);

}  // namespace shardscope::plan
