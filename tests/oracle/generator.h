// Random models and policies, within what a user can ask for.
#pragma once

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "tests/oracle/values.h"

namespace shardscope::oracle {

// One to eight segments; units of one to three of them, with or without a root that spans the
// others, units that come back later (tied), segments without parameters; parameters of zero to
// three dimensions that no number of ranks divides.
plan::ModelDescription RandomModel(Random& random);

// What fixes the arithmetic: ranks, micro-batches, dtypes.
plan::Policy RandomArithmetic(Random& random);

// The same arithmetic under other knobs; with a pipeline the model is still to be cut into stages.
plan::Policy RandomKnobs(const plan::Policy& arithmetic, Random& random);

// The model as the policy's ranks divide it. In as many stages as there are ranks for, or as can be
// made of it, which the policy then has: a unit is in one stage, and each stage has one. Of tensor
// ranks: some segments are split.
plan::ModelDescription Divided(plan::ModelDescription model, plan::Policy* policy, Random& random);

}  // namespace shardscope::oracle
