// The step of each strategy, before any pass. `policy` is checked.
#pragma once

#include "engine/plan/model_description.h"
#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"

namespace shardscope::plan {

#define SHARDSCOPE_STRATEGY(strategy, builder, ...) \
  Schedule builder(const ModelDescription& model, const Policy& policy);
#include "engine/plan/strategy_list.inc"
#undef SHARDSCOPE_STRATEGY

// BuildFsdp() with each preset.
Schedule BuildDoubleBuffer(const ModelDescription& model, const Policy& policy);
Schedule BuildFsdp1(const ModelDescription& model, const Policy& policy);
Schedule BuildFsdp2(const ModelDescription& model, const Policy& policy);

}  // namespace shardscope::plan
