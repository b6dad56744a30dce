// Checks that sizes follow from the shapes of the units: payloads, wire bytes, buffers.
#pragma once

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {

// CheckStructure() has passed.
std::optional<Refusal> CheckSizes(const Schedule& schedule);

}  // namespace shardscope::plan
