// The unsharded truth: the whole model as ordinary autograd over plain tensor ops. Shares no
// forward, backward, kernel or optimizer code with the engine, only the parameters' names.
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "engine/model/initialize.h"
#include "engine/model/model_config.h"

namespace shardscope::model {

using ParameterMap = std::map<std::string, at::Tensor>;

// Full initial parameters in `dtype`; drawn, of that seed.
ParameterMap InitialParameters(const ModelConfig& config, plan::DType dtype,
                               const ParameterSource& source);
ParameterMap InitialParameters(const ModelConfig& config, plan::DType dtype, uint64_t seed);

// [batch, seq, vocab] of token ids [batch, seq].
at::Tensor ReferenceLogits(const ModelConfig& config, const ParameterMap& parameters,
                           const at::Tensor& inputs);

// Mean loss over all tokens that it counts (a scalar with a graph). `samples` [batch, seq + 1]: as
// AppendSample() gives them.
at::Tensor ReferenceLoss(const ModelConfig& config, const ParameterMap& parameters,
                         const at::Tensor& samples);

}  // namespace shardscope::model
