// What a training run is, beyond its model: the same values drive the sharded trainer and the
// unsharded reference, which must end with the same weights.
#pragma once

#include <algorithm>
#include <cstdint>

namespace shardscope::model {

struct TrainingSettings {
  int64_t steps = 100;
  int num_ranks = 1;
  int64_t batch = 4;  // samples per rank and micro-batch
  int64_t micro_batches = 1;
  double learning_rate = 3e-3;  // after the warm-up
  double clip = 1;              // largest global gradient norm; 0 = off
  int64_t warmup_steps = 10;
  uint64_t seed = 0;
};

// Factor on the sum of the gradients of ranks with samples of their own. Every micro-batch's loss
// is a mean over its own tokens; the step's is the mean over all tokens of all ranks, and all
// micro-batches are of one size.
inline double GradientScale(int num_data_ranks, int64_t micro_batches) {
  return 1.0 / (static_cast<double>(num_data_ranks) * static_cast<double>(micro_batches));
}

// AdamW (Loshchilov & Hutter 2019) with the settings usual for language models; decay acts on every
// parameter, as torch.optim.AdamW does by default.
inline constexpr double kBeta1 = 0.9;
inline constexpr double kBeta2 = 0.95;
inline constexpr double kAdamEpsilon = 1e-8;
inline constexpr double kWeightDecay = 0.01;

// Rises linearly over the warm-up, then stays.
inline double LearningRateAt(double learning_rate, int64_t warmup_steps, int64_t step) {
  if (step + 1 >= warmup_steps) return learning_rate;
  return learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup_steps);
}

// Factor on all gradients so that their global norm is at most `clip` (torch's clip_grad_norm_).
inline double ClipScale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace shardscope::model
