#include "engine/cuda/runtime/device_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

#include <vector>

namespace shardscope::cuda {

at::Tensor GradientSquares(std::span<const runtime::ShardedUnit> units) {
  at::Tensor squares;
  for (const runtime::ShardedUnit& unit : units) {
    for (const runtime::ShardedUnit::Slice& slice : unit.CountedSlices()) {
      if (!squares.defined()) squares = at::zeros({1}, slice.gradient.options().dtype(at::kDouble));
      if (slice.gradient.numel() == 0) continue;
      squares.add_(at::linalg_vector_norm(slice.gradient).to(at::kDouble).square());
    }
  }
  return squares;
}

void UpdateFused(const DeviceUpdate& update, runtime::ShardedUnit* unit) {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::vector<at::Tensor> first_moments;
  std::vector<at::Tensor> second_moments;
  for (const runtime::ShardedUnit::Slice& slice : unit->Slices()) {
    if (slice.parameters.numel() == 0) continue;
    parameters.push_back(slice.parameters);
    gradients.push_back(slice.gradient);
    first_moments.push_back(slice.first_moment);
    second_moments.push_back(slice.second_moment);
  }
  if (parameters.empty()) return;
  const at::Tensor norm = update.squares.sqrt();
  // The kernel divides gradients by it: 1 / model::ClipScale().
  std::optional<at::Tensor> divisor;
  if (update.clip > 0) divisor = ((norm + 1e-6) / update.clip).clamp_min_(1).to(at::kFloat);
  const at::Tensor found_inf = at::isfinite(norm).logical_not().to(at::kFloat);
  // The kernel wants the number of this update, from 1.
  const at::Tensor count = at::full({}, static_cast<double>(update.step + 1), found_inf.options());
  const std::vector<at::Tensor> counts(parameters.size(), count);
  at::_fused_adamw_(parameters, gradients, first_moments, second_moments, /*max_exp_avg_sqs=*/{},
                    counts, update.learning_rate, model::kBeta1, model::kBeta2, model::kWeightDecay,
                    model::kAdamEpsilon,
                    /*amsgrad=*/false, /*maximize=*/false, divisor, found_inf);
}

}  // namespace shardscope::cuda
