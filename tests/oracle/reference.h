// What one step must compute: the model's arithmetic written down in plain order, without a
// Schedule, streams or memory.
#pragma once

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "tests/oracle/values.h"

namespace shardscope::oracle {

// The result that Interpreter::Run() must give for any schedule of `model` under `policy`. Of the
// policy only ranks, micro-batches, and whether parameters are sharded matter.
Value ReferenceResult(const plan::ModelDescription& model, const plan::Policy& policy);

}  // namespace shardscope::oracle
