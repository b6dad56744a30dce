// What all ranks of a run share, unchanged.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/config/faults.h"
#include "engine/model/data.h"
#include "engine/model/initialize.h"
#include "engine/model/model_config.h"
#include "engine/model/training_settings.h"
#include "engine/plan/state.h"
#include "engine/runtime/ranks/held_out.h"
#include "engine/runtime/units/state_layout.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

struct Job {
  model::ModelConfig model;
  model::TrainingSettings training;
  plan::DType master = plan::DType::kFp32;    // of shards and optimizer state
  plan::DType reduce = plan::DType::kFp32;    // in which gradients are sent
  plan::DType gradient = plan::DType::kFp32;  // in which they are kept, reduced
  std::shared_ptr<const model::Corpus> corpus;
  std::shared_ptr<const HeldOut> held_out;                 // of evaluations; null: there are none
  std::shared_ptr<const model::ParameterSource> weights;   // that the run begins with; null: drawn
  std::shared_ptr<const model::ParameterSource> adapters;  // the same of `weights` that have none
  int64_t num_parameters = 0;                              // elements
  int64_t num_trained = 0;                                 // of these
  plan::SparedState spared;                                // as the others are not
  StateLayout initial_layout;                              // of the first step
  std::optional<int> only_rank;      // of this process, where each rank has one; else it has all
  bool poison = false;               // tests: freed memory is inaccessible
  int64_t first_step = 0;            // above 0: the run goes on from a checkpoint
  model::Sampler::Start data_start;  // and so do its data
  bool keep_batches = false;         // for --dump
  int64_t memory_limit = 0;
  // Where a rank would pass it all the same: MemoryPool::Options::explain. Any thread.
  std::function<std::string(int64_t wanted_bytes)> explain_out_of_memory;
  int64_t timeout_ns = 60 * kNsPerSecond;  // how long a rank may keep the others waiting
  std::vector<config::Fault> faults;       // of any rank
  int other_seed_rank = -1;                // fault.init; -1: none

  StateDTypes state_dtypes() const { return {master, model.dtype, gradient}; }
  // What the parameters of `rank` begin as.
  std::shared_ptr<const model::ParameterSource> InitialSource(int rank) const {
    return SourceWith(training.seed + (rank == other_seed_rank ? 1 : 0));
  }
  // Those of a rank without fault.init; `seed`: of what is drawn.
  std::shared_ptr<const model::ParameterSource> SourceWith(uint64_t seed) const {
    const auto drawn = std::make_shared<const model::DrawnParameters>(model, seed);
    if (weights == nullptr) return drawn;
    if (adapters != nullptr) return std::make_shared<const model::WithAdapters>(weights, adapters);
    return std::make_shared<const model::WithAdapters>(weights, drawn);
  }
};

}  // namespace shardscope::runtime
