// Row kernels that ATen has no single op for: RMSNorm with its backward, rotary positions,
// embedding rows, cross-entropy. Plain loops over contiguous memory; one thread, fixed order of
// additions, so results repeat bit for bit.
//
// Shapes: T tokens (batch * seq), D dim, V vocabulary. "Wide" is fp64 for fp64 models, fp32 for all
// others: the type in which sums are taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace shardscope::model {

at::ScalarType WideType(at::ScalarType type);

// normed [T, D] = x * scale * weight with scale [T] (wide) = 1 / sqrt(mean(x^2) + epsilon).
void RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor* normed,
             at::Tensor* scale);

// input_gradient = gradient through the norm, plus `residual` (the gradient that passes beside the
// block; may be undefined). weight_gradient [D] is overwritten.
struct RmsNormBackwardArgs {
  const at::Tensor& gradient;  // with respect to normed
  const at::Tensor& x;
  const at::Tensor& weight;
  const at::Tensor& scale;
  const at::Tensor& residual;
};
void RmsNormBackward(const RmsNormBackwardArgs& args, at::Tensor* input_gradient,
                     at::Tensor* weight_gradient);

// cos and sin of position * 10000^(-2i/head_dim), [seq, 2, head_dim / 2], wide.
at::Tensor RotaryTable(int64_t seq, int64_t head_dim, at::ScalarType wide);

// Rotates the queries and keys in qkv [T, 3, heads, head_dim] in place; channel i turns with
// channel i + head_dim / 2.
void RotateInPlace(const at::Tensor& table, at::Tensor* qkv);

// The inverse rotation, from the gradients of attention [B, heads, S, head_dim] (any strides with
// contiguous channels) into qkv_gradient [T, 3, heads, head_dim].
struct QkvGradients {
  const at::Tensor& query;
  const at::Tensor& key;
  const at::Tensor& value;
};
void RotateBack(const at::Tensor& table, const QkvGradients& gradients, at::Tensor* qkv_gradient);

// output [T, D]: row tokens[t] of weight [V, D].
void EmbeddingRows(const at::Tensor& weight, const int64_t* tokens, at::Tensor* output);
// weight_gradient is overwritten: rows summed in token order, in the wide type.
void EmbeddingBackward(const at::Tensor& gradient, const int64_t* tokens,
                       at::Tensor* weight_gradient);

// Mean of -log_probabilities[t, targets[t]] over T rows; log_probabilities [T, V], wide.
double MeanLoss(const at::Tensor& log_probabilities, const int64_t* targets);
// logits_gradient [T, V] of the mean loss times `scale`, in the model's dtype.
void LossBackward(const at::Tensor& log_probabilities, const int64_t* targets, double scale,
                  at::Tensor* logits_gradient);

}  // namespace shardscope::model
