// What an evaluation runs: the forwards of a training step and what they need, in the same order on
// the same streams, made of the step that a strategy's builder has emitted. So every strategy,
// preset and mesh evaluates as it trains.
#pragma once

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// Leaves of each program what belongs to forwards: batches, gathers, forwards, exchanges between
// stages and tensor ranks, reshards. No gradient is made and nothing is updated; what ranks keep
// between steps is what it was, so that no state moves between training and evaluation. Activations
// are outputs alone, each freed by its last use, and a unit that backward would have needed is
// resharded behind its last forward. Before the passes for prefetch.
void KeepForwards(Schedule* schedule);

// Makes its ops those of phase evaluation, and gives it that name. After all other passes.
void NameEvaluation(Schedule* schedule);

// Whether NameEvaluation() has made it.
bool IsEvaluation(const Schedule& schedule);

}  // namespace shardscope::plan
