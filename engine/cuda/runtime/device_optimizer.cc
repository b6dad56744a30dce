#include "engine/cuda/runtime/device_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/zeros.h>

namespace shardscope::cuda {

at::Tensor GradientSquares(std::span<runtime::ShardedUnit> units) {
  at::Tensor squares =
      at::zeros({1}, at::TensorOptions(at::kDouble).device(units.front().gradient().device()));
  for (runtime::ShardedUnit& unit : units) {
    if (unit.gradient().numel() == 0) continue;
    squares.add_(at::linalg_vector_norm(unit.gradient()).to(at::kDouble).square());
  }
  return squares;
}

void UpdateFused(const DeviceUpdate& update, runtime::ShardedUnit* unit) {
  if (unit->parameters().numel() == 0) return;
  const at::Tensor norm = update.squares.sqrt();
  // The kernel divides gradients by it: 1 / model::ClipScale().
  std::optional<at::Tensor> divisor;
  if (update.clip > 0) divisor = ((norm + 1e-6) / update.clip).clamp_min_(1).to(at::kFloat);
  const at::Tensor found_inf = at::isfinite(norm).logical_not().to(at::kFloat);
  // The kernel wants the number of this update, from 1.
  const at::Tensor count = at::full({}, static_cast<double>(update.step + 1), found_inf.options());
  at::_fused_adamw_({unit->parameters()}, {unit->gradient()}, {unit->first_moment()},
                    {unit->second_moment()}, /*max_exp_avg_sqs=*/{}, {count}, update.learning_rate,
                    model::kBeta1, model::kBeta2, model::kWeightDecay, model::kAdamEpsilon,
                    /*amsgrad=*/false, /*maximize=*/false, divisor, found_inf);
}

}  // namespace shardscope::cuda
