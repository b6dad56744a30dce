// Initial values of parameters: a function of seed, name and position alone, so that they are the
// same whatever the number of ranks and the grouping into units.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/model/model_config.h"

namespace shardscope::model {

// Elements [first, first + count) of the flattened parameter. Norm weights are 1; others normal
// with standard deviation 0.02 (embedding, head), 1/sqrt(columns) (inner layers), divided by
// sqrt(2 layers) for the two layers of a block that add to the residual stream (GPT-2's scaling).
std::vector<double> InitialValues(const ModelConfig& config, const plan::Parameter& parameter,
                                  uint64_t seed, int64_t first, int64_t count);

// A well mixed 64-bit value of (seed, index): SplitMix64 as a counter-based generator.
uint64_t MixedBits(uint64_t seed, uint64_t index);

}  // namespace shardscope::model
