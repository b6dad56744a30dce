// The step of each strategy, before any pass. `policy` is checked.
#pragma once

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"

namespace shardscope::plan {

Schedule BuildDataParallel(const ModelDescription& model, const Policy& policy);
Schedule BuildDdp(const ModelDescription& model, const Policy& policy);
Schedule BuildDoubleBuffer(const ModelDescription& model, const Policy& policy);
Schedule BuildFsdp1(const ModelDescription& model, const Policy& policy);
Schedule BuildFsdp2(const ModelDescription& model, const Policy& policy);
Schedule BuildNoShard(const ModelDescription& model, const Policy& policy);
Schedule BuildSingle(const ModelDescription& model, const Policy& policy);
Schedule BuildZero(const ModelDescription& model, const Policy& policy);
Schedule BuildZero3(const ModelDescription& model, const Policy& policy);

}  // namespace shardscope::plan
