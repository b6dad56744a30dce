// Row kernels that ATen has no single op for: RMSNorm with its backward, rotary positions,
// embedding rows, cross-entropy. Plain loops over contiguous memory; one thread, fixed order of
// additions, so results repeat bit for bit.
//
// Shapes: T tokens (batch * seq), D dim, V vocabulary. "Wide" is fp64 for fp64 models, fp32 for all
// others: the type in which sums are taken.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "engine/model/model_config.h"

namespace shardscope::model {

at::ScalarType WideType(at::ScalarType type);

// normed [T, D] = x * scale * weight with scale [T] (wide) = 1 / sqrt(mean(x^2) + epsilon).
void RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor* normed,
             at::Tensor* scale);

// input_gradient = gradient through the norm, plus `residual` (the gradient that passes beside the
// block; may be undefined). weight_gradient [D] is overwritten, unless it is undefined.
struct RmsNormBackwardArgs {
  const at::Tensor& gradient;  // with respect to normed
  const at::Tensor& x;
  const at::Tensor& weight;
  const at::Tensor& scale;
  const at::Tensor& residual;
};
void RmsNormBackward(const RmsNormBackwardArgs& args, at::Tensor* input_gradient,
                     at::Tensor* weight_gradient);

// cos and sin of each position's angles, [seq, 2, head_dim / 2], wide. Channels i of gpt turn by
// position * theta^(-2i/head_dim). Llama's frequencies and angles are rounded to fp32 first, as
// transformers has them (LlamaRotaryEmbedding), and scaled where the model says so.
at::Tensor RotaryTable(const ModelConfig& config, at::ScalarType wide);

// Rotates the first `count` of heads [T, heads, head_dim] in place; channel i turns with channel i
// + head_dim / 2.
void RotateInPlace(const at::Tensor& table, int64_t count, at::Tensor* heads);

// From the gradient of attention [B, heads, S, head_dim] (any strides with contiguous channels)
// into rows [T, heads, head_dim] (any stride between tokens); with a table rotated back.
void HeadsToRows(const at::Tensor& table, const at::Tensor& gradient, const at::Tensor& rows);

// product = silu(gate) * up, elementwise over contiguous tensors of one shape (Shazeer 2020, arXiv
// 2002.05202).
void SwiGlu(const at::Tensor& gate, const at::Tensor& up, at::Tensor* product);
// gate_gradient and up_gradient from the product's gradient, in whose place the product is written.
void SwiGluBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                    at::Tensor* gate_gradient, at::Tensor* up_gradient);

// output [T, D]: row tokens[t] of weight [V, D].
void EmbeddingRows(const at::Tensor& weight, const int64_t* tokens, at::Tensor* output);
// weight_gradient is overwritten, or added to: rows summed in token order, in the wide type.
void EmbeddingBackward(const at::Tensor& gradient, const int64_t* tokens, bool adds,
                       at::Tensor* weight_gradient);

// Sum of -log_probabilities[t, targets[t]] over the rows whose target is not negative, divided by
// `mean_over`; log_probabilities [T, V], wide.
double MeanLoss(const at::Tensor& log_probabilities, const int64_t* targets, double mean_over);
// logits_gradient [T, V] of that loss times `scale`, in the model's dtype.
struct LossScale {
  double scale = 1;
  double mean_over = 1;
};
void LossBackward(const at::Tensor& log_probabilities, const int64_t* targets,
                  const LossScale& scale, at::Tensor* logits_gradient);
// Both at once: the sum of -log softmax(logits)[t, targets[t]] over the rows whose target is not
// negative. In place of logits [T, V] comes the sum's gradient.
double CrossEntropy(const int64_t* targets, at::Tensor* logits);

// The same over blocks of the vocabulary, [T, n] with the logits of the tokens from `first` on.
// What is known of each row once some were added, [T], wide: the largest logit, the sum of
// exp(logit - largest), and the target's logit where it was among them (online softmax: Milakov and
// Gimelshein 2018, arXiv 1805.02867).
struct LogitRows {
  at::Tensor largest;  // at first -infinity
  at::Tensor sum;      // at first 0
  at::Tensor of_target;
};
void AddLogits(const at::Tensor& block, int64_t first, const int64_t* targets, LogitRows* rows);
// In the block's place: softmax less the target, times `scale`; 0 in rows whose target is negative.
// log_sum [T], wide: of exp(logit) over the vocabulary.
void BlockGradient(const at::Tensor& log_sum, int64_t first, const int64_t* targets, double scale,
                   at::Tensor* block);

}  // namespace shardscope::model
