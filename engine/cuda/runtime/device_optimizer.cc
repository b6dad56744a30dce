#include "engine/cuda/runtime/device_optimizer.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace shardscope::cuda {

at::Tensor GradientSquares(std::span<const runtime::ShardedUnit> units, at::Device device) {
  std::vector<at::Tensor> gradients;
  for (const runtime::ShardedUnit& unit : units) {
    for (const runtime::ShardedUnit::Slice& slice : unit.CountedSlices()) {
      if (slice.gradient.numel() > 0) gradients.push_back(slice.gradient);
    }
  }
  if (gradients.empty()) return at::zeros({1}, at::TensorOptions(at::kDouble).device(device));
  const at::ScalarType wide = gradients.front().element_size() == 8 ? at::kDouble : at::kFloat;
  return at::stack(at::_foreach_norm(gradients, 2, wide)).to(at::kDouble).square().sum().view({1});
}

UpdateScalars ScalarsOf(const DeviceUpdate& update) {
  UpdateScalars scalars{.norm = update.squares.sqrt().div_(update.loss_scale)};
  const at::Tensor& norm = scalars.norm;
  if (update.clip > 0 || update.loss_scale != 1) {
    at::Tensor divisor = at::ones_like(norm);
    if (update.clip > 0) divisor = ((norm + 1e-6) / update.clip).clamp_min_(1);
    scalars.divisor = divisor.mul_(update.loss_scale).to(at::kFloat);
  }
  scalars.found_inf = at::isfinite(norm).logical_not().to(at::kFloat);
  scalars.count =
      at::full({}, static_cast<double>(update.args.step + 1), scalars.found_inf.options());
  return scalars;
}

void UpdateFused(const runtime::UpdateArgs& args, const UpdateScalars& scalars,
                 runtime::ShardedUnit* unit) {
  std::vector<at::Tensor> parameters;
  std::vector<at::Tensor> gradients;
  std::array<std::vector<at::Tensor>, 2> state;
  for (const runtime::ShardedUnit::Slice& slice : unit->Slices()) {
    if (slice.parameters.numel() == 0) continue;
    parameters.push_back(slice.parameters);
    gradients.push_back(slice.gradient);
    for (size_t tensor = 0; tensor < slice.state.size(); ++tensor) {
      state[tensor].push_back(slice.state[tensor].values);
    }
  }
  if (parameters.empty()) return;
  const model::OptimizerSettings& optimizer = args.optimizer;
  if (optimizer.kind == plan::OptimizerKind::kSgd) {
    // The state begins with zeros: the first step is not another one.
    at::_fused_sgd_(parameters, gradients, state[0], optimizer.weight_decay, optimizer.momentum,
                    args.learning_rate, /*dampening=*/0, /*nesterov=*/false, /*maximize=*/false,
                    /*is_first_step=*/false, scalars.divisor, scalars.found_inf);
    return;
  }
  const std::vector<at::Tensor> counts(parameters.size(), scalars.count);
  const auto adam = [&](auto update_fused) {
    update_fused(parameters, gradients, state[0], state[1], /*max_exp_avg_sqs=*/at::TensorList(),
                 counts, args.learning_rate, optimizer.beta1, optimizer.beta2,
                 optimizer.weight_decay, optimizer.eps, /*amsgrad=*/false, /*maximize=*/false,
                 scalars.divisor, scalars.found_inf);
  };
  if (optimizer.kind == plan::OptimizerKind::kAdamw) {
    adam([](auto&&... all) { at::_fused_adamw_(std::forward<decltype(all)>(all)...); });
  } else {
    adam([](auto&&... all) { at::_fused_adam_(std::forward<decltype(all)>(all)...); });
  }
}

}  // namespace shardscope::cuda
