// The parts of the validator. CheckStructure() comes first: the others index without looking.
#pragma once

#include <optional>
#include <string>

#include "engine/plan/schedule.h"
#include "engine/plan/validate.h"

namespace shardscope::plan {

// A refusal of op `index` of `program`, which is one of the schedule's. Its message: "op 17 'B m0
// block3 all_gather' " + `what`, then the ops around it as a grid (streams as columns, ops in host
// order as rows, the failing one marked).
Refusal RefusalAt(const Schedule& schedule, const Program& program, RefusalKind kind, OpIndex index,
                  const std::string& what);

// Every index names something, and waits name earlier ops.
std::optional<Refusal> CheckStructure(const Schedule& schedule);

// Sizes follow from the shapes of the units: payloads, wire bytes, buffers.
std::optional<Refusal> CheckSizes(const Schedule& schedule);

// On every communicator all ranks issue the same collectives (kind, bytes, dtype, unit) in the same
// order.
std::optional<Refusal> CheckCollectivesMatch(const Schedule& schedule);

// Plays the programs against each other, a collective starting only when it has reached the head on
// every rank. With one program there is nothing to play: every wait names an earlier op and all
// ranks reach the same collective.
std::optional<Refusal> CheckNoDeadlock(const Schedule& schedule);

// Every buffer of `program`, which is one of the schedule's, is allocated once, written, read,
// freed once, and all of it is ordered.
std::optional<Refusal> CheckLifetimes(const Schedule& schedule, const Program& program);

}  // namespace shardscope::plan
