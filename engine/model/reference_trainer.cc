#include "engine/model/reference_trainer.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

namespace shardscope::model {

ReferenceTrainer::ReferenceTrainer(const ModelConfig& config, const TrainingSettings& settings,
                                   plan::DType master, const Corpus* corpus, Sampler sampler,
                                   const ParameterSource* weights)
    : config_(config),
      settings_(settings),
      corpus_(corpus),
      sampler_(std::move(sampler)),
      parameters_(weights == nullptr ? InitialParameters(config, master, settings.seed)
                                     : InitialParameters(config, master, *weights)) {
  at::set_num_threads(1);  // sums in one order: the same run gives the same bits
  for (const plan::Parameter& one : AllParameters(config)) {
    if (one.is_frozen) continue;
    at::Tensor& parameter = parameters_[one.name];
    parameter.set_requires_grad(true);
    first_moments_[one.name] = at::zeros_like(parameter).detach();
    second_moments_[one.name] = at::zeros_like(parameter).detach();
  }
}

at::Tensor ReferenceTrainer::GlobalBatch(int64_t step) {
  std::vector<int64_t> tokens;
  for (int taker = 0; taker < sampler_.takers(); ++taker) {
    for (const int64_t sample : sampler_.Samples(step, taker)) {
      AppendSample(*corpus_, sample, config_.seq, &tokens);
    }
  }
  return at::tensor(tokens, at::kLong).view({-1, config_.seq + 1});
}

StepResult ReferenceTrainer::Step(int64_t step) {
  const at::Tensor loss = ReferenceLoss(config_, parameters_, GlobalBatch(step));
  std::vector<at::Tensor> weights;
  for (const auto& [name, moment] : first_moments_) weights.push_back(parameters_[name]);
  const std::vector<at::Tensor> gradients = torch::autograd::grad({loss}, weights);

  const c10::AutoGradMode no_grad(false);
  double squares = 0;
  for (const at::Tensor& gradient : gradients) {
    squares += gradient.to(at::kDouble).pow(2).sum().item<double>();
  }
  const double norm = std::sqrt(squares);
  const double clip = ClipScale(norm, settings_.clip);
  const double rate = LearningRateAt(settings_, settings_.learning_rate, step);
  size_t index = 0;
  for (const auto& [name, moment] : first_moments_) {
    Update(name, gradients[index++] * clip, rate, step);
  }
  return {loss.item<double>(), norm};
}

void ReferenceTrainer::Update(const std::string& name, at::Tensor gradient, double rate,
                              int64_t step) {
  const OptimizerSettings& optimizer = settings_.optimizer;
  at::Tensor& parameter = parameters_[name];
  at::Tensor& first = first_moments_[name];
  at::Tensor& second = second_moments_[name];
  if (optimizer.kind == plan::OptimizerKind::kAdamw) {
    parameter.mul_(1 - rate * optimizer.weight_decay);
  } else {
    gradient = gradient + parameter * optimizer.weight_decay;
  }
  if (optimizer.kind == plan::OptimizerKind::kSgd) {
    first.mul_(optimizer.momentum).add_(gradient);
    parameter.sub_(first * rate);
    return;
  }
  const auto count = static_cast<double>(step + 1);
  first.mul_(optimizer.beta1).add_(gradient * (1 - optimizer.beta1));
  second.mul_(optimizer.beta2).add_(gradient * gradient * (1 - optimizer.beta2));
  const double correction2 = 1 - std::pow(optimizer.beta2, count);
  const at::Tensor denominator = (second / correction2).sqrt() + optimizer.eps;
  parameter.sub_(first / (1 - std::pow(optimizer.beta1, count)) / denominator * rate);
}

}  // namespace shardscope::model
