// Bytes that the segments of segments.h take, on the CPU with one thread. `batch`: samples per rank
// and micro-batch; `config`: of one rank of mesh.tensor.
#pragma once

#include <cstdint>

#include "engine/model/model_config.h"

namespace shardscope::model {

// Exactly what Forward() saves, output included and input not.
int64_t ActivationBytes(const ModelConfig& config, int64_t segment, int64_t batch);

// Of these what matrix products and attention of a block have put out, beside the segment's output.
int64_t ProductBytes(const ModelConfig& config, int64_t segment, int64_t batch);

// Of what NormForward() saves; 0 where a segment's forward has its norm.
int64_t NormBytes(const ModelConfig& config, int64_t segment, int64_t batch);

// Of what the weights behind the norm of attention or MLP put out.
int64_t HiddenBytes(const ModelConfig& config, int64_t segment, int64_t batch);

// Most bytes that forward and backward of a segment take for themselves, beside what the former
// saves and the latter returns.
int64_t ForwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch);
int64_t BackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch);
int64_t WeightBackwardTemporaryBytes(const ModelConfig& config, int64_t segment, int64_t batch);

}  // namespace shardscope::model
