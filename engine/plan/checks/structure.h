// Checks that every index of a Schedule names something, and that waits name earlier ops.
#pragma once

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {

// After Ok, all other checks may index without looking.
std::optional<Refusal> CheckStructure(const Schedule& schedule);

}  // namespace shardscope::plan
