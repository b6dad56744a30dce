// Checks the life of every buffer of a program: allocated once, written, read, freed once, and all
// of it ordered.
#pragma once

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {

// `program` is one of the schedule's, and CheckStructure() has passed.
std::optional<Refusal> CheckLifetimes(const Schedule& schedule, const Program& program);

}  // namespace shardscope::plan
