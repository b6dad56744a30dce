// Which parameters of a model are a unit, and which stage of a pipeline a segment is in.
#pragma once

#include <cstdint>

#include "engine/model/model_config.h"

namespace shardscope::model {

// Blocks are spread over the stages evenly; what does not divide goes to the first ones.
int32_t StageOf(const ModelConfig& config, const plan::UnitPolicy& policy, int64_t segment);

// Adds the units of `policy` to a description that has its segments, and says which units each of
// these uses. Where the head is tied to the embedding, both are in the root unit.
void AddUnits(const ModelConfig& config, const plan::UnitPolicy& policy,
              plan::ModelDescription* model);

}  // namespace shardscope::model
