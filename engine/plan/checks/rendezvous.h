// Checks across ranks: the same collectives in the same order, and no deadlock.
#pragma once

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {

// On every communicator all ranks must issue the same collectives (kind, bytes, dtype, unit) in the
// same order. CheckStructure() has passed.
std::optional<Refusal> CheckCollectivesMatch(const Schedule& schedule);

// Plays the programs against each other, a collective starting only when it has reached the head on
// every rank. With one program there is nothing to play: every wait names an earlier op and all
// ranks reach the same collective.
std::optional<Refusal> CheckNoDeadlock(const Schedule& schedule);

}  // namespace shardscope::plan
