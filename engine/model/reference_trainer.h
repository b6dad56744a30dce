// ReferenceTrainer: trains the reference model on the global batch (all ranks' samples together) on
// one thread, without any Schedule. What the sharded trainer is compared with.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/model/data.h"
#include "engine/model/reference_model.h"
#include "engine/model/training_settings.h"

namespace shardscope::model {

struct StepResult {
  double loss = 0;
  double grad_norm = 0;  // before clipping
};

// Threads: one at a time.
class ReferenceTrainer {
 public:
  // `corpus` is borrowed and outlives this. `master`: dtype of weights and optimizer state.
  // `weights`: that it begins with; null: drawn.
  ReferenceTrainer(const ModelConfig& config, const TrainingSettings& settings, plan::DType master,
                   const Corpus* corpus, Sampler sampler, const ParameterSource* weights = nullptr);

  // Steps in order, from 0.
  StepResult Step(int64_t step);

  const ParameterMap& parameters() const { return parameters_; }

 private:
  at::Tensor GlobalBatch(int64_t step);
  void Update(const std::string& name, at::Tensor gradient, double rate, int64_t step);

  const ModelConfig config_;
  const TrainingSettings settings_;
  const Corpus* corpus_;
  Sampler sampler_;
  ParameterMap parameters_;
  ParameterMap first_moments_;  // of what is trained; or SGD's momentum
  ParameterMap second_moments_;
};

}  // namespace shardscope::model
