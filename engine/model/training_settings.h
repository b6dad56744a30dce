// What a training run is, beyond its model: the same values drive the sharded trainer and the
// unsharded reference, which must end with the same weights.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>

#include "engine/plan/optimizer_state.h"

namespace shardscope::model {

// torch.optim's AdamW, Adam and SGD, with the settings usual for language models. Decay acts on
// every parameter, as it does there by default.
struct OptimizerSettings {
  plan::OptimizerKind kind = plan::OptimizerKind::kAdamw;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.01;
  double momentum = 0;  // SGD's
};

// What becomes of the learning rate after the warm-up.
enum class RateSchedule : uint8_t { kConstant, kLinear, kCosine };

// Of fp16 gradients; torch.amp.GradScaler has the same names.
struct ScalerSettings {
  bool is_on = false;
  double init = 65536;
  double growth = 2;
  double backoff = 0.5;
  int64_t interval = 2000;
};

struct TrainingSettings {
  int64_t steps = 100;
  int num_ranks = 1;
  int64_t batch = 4;  // samples per rank and micro-batch
  int64_t micro_batches = 1;
  double learning_rate = 3e-3;  // after the warm-up
  double clip = 1;              // largest global gradient norm; 0 = off
  int64_t warmup_steps = 10;
  RateSchedule schedule = RateSchedule::kConstant;
  double min_learning_rate = 0;  // to which it falls
  OptimizerSettings optimizer;
  ScalerSettings scaler;
  uint64_t seed = 0;
};

// Factor on the sum of the gradients of ranks with samples of their own. Every micro-batch's loss
// is a mean over its own tokens; the step's is the mean over all tokens of all ranks, and all
// micro-batches are of one size.
inline double GradientScale(int num_data_ranks, int64_t micro_batches) {
  return 1.0 / (static_cast<double>(num_data_ranks) * static_cast<double>(micro_batches));
}

// Rises linearly over the warm-up, to `learning_rate` in its last step; the first step is no zero
// (torch: LinearLR(start_factor=1/warmup_steps, total_iters=warmup_steps-1)). Then it stays, or
// falls to the least until the end of training, in a line or half a cosine (transformers:
// get_linear_schedule_with_warmup, get_cosine_schedule_with_warmup; torch: CosineAnnealingLR).
inline double LearningRateAt(const TrainingSettings& training, double learning_rate, int64_t step) {
  const int64_t warmup = training.warmup_steps;
  if (step + 1 < warmup) {
    return learning_rate * static_cast<double>(step + 1) / static_cast<double>(warmup);
  }
  const int64_t falls = training.steps - warmup;
  if (training.schedule == RateSchedule::kConstant || step < warmup || falls <= 0) {
    return learning_rate;
  }
  const double done =
      std::min(1.0, static_cast<double>(step - warmup) / static_cast<double>(falls));
  const double left = training.schedule == RateSchedule::kLinear
                          ? 1 - done
                          : (1 + std::cos(std::numbers::pi * done)) / 2;
  const double least = std::min(training.min_learning_rate, learning_rate);
  return least + (learning_rate - least) * left;
}

// Scales the loss so that fp16 gradients do not vanish, and goes down when they overflow; all ranks
// have the same (torch.amp.GradScaler, FSDP's ShardedGradScaler).
struct GradientScaler {
  double scale = 1;
  int64_t growth_tracker = 0;  // updates since the scale changed
  int64_t num_skipped = 0;     // steps whose gradient was not finite
  bool operator==(const GradientScaler&) const = default;

  // After a step (_amp_update_scale_).
  void Update(const ScalerSettings& settings, bool found_inf) {
    if (found_inf) {
      scale *= settings.backoff;
      growth_tracker = 0;
      ++num_skipped;
      return;
    }
    if (++growth_tracker < settings.interval) return;
    // What fp32 cannot hold is no scale.
    const double grown = scale * settings.growth;
    if (grown <= std::numeric_limits<float>::max()) scale = grown;
    growth_tracker = 0;
  }
};
inline GradientScaler MakeScaler(const ScalerSettings& settings) {
  return {.scale = settings.is_on ? settings.init : 1};
}

// Factor on all gradients so that their global norm is at most `clip` (torch's clip_grad_norm_).
inline double ClipScale(double norm, double clip) {
  return clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0;
}

}  // namespace shardscope::model
