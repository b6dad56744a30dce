// Checks that every index of a Schedule names something and that collectives carry honest sizes.
#pragma once

#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::plan {

// After Ok, all other checks may index without looking.
Status CheckStructure(const Schedule& schedule);

}  // namespace shardscope::plan
