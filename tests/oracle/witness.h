// Whether a schedule does harm: replays the witness of a refusal, or looks for harm where the
// validator saw none.
#pragma once

#include <optional>

#include "engine/plan/validate.h"
#include "tests/oracle/finding.h"
#include "tests/oracle/mutations.h"

namespace shardscope::oracle {

// The harm that the refusal speaks of, at its op or buffer, shown by the interpreter: in the
// interleaving that the refusal points to for two unordered ops, in any for all else. Nothing if it
// cannot be shown: a false alarm.
std::optional<Finding> Replay(const plan::Schedule& schedule, const plan::Refusal& refusal);

// Harm of any kind in `num_interleavings` random interleavings and in those in which the changed
// op collides with what it may now collide with. A result other than `expected` is harm, too.
std::optional<Finding> SearchHarm(const Mutant& mutant, Value expected, int num_interleavings);

}  // namespace shardscope::oracle
