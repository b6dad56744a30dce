// The Policy that the keys give.
#include <algorithm>

#include "engine/config/rules.h"
#include "engine/plan/policy_words.h"
#include "trace/base/check.h"
#include "trace/base/words.h"

namespace shardscope::config {
namespace {

// Its choices are the names of dtypes.
plan::DType DTypeOf(const Config& config, std::string_view key) {
  return words::ParseDType(config.Get(key)).value();
}

plan::DType MasterDTypeOf(const Config& config) {
  const bool is_wide = DTypeOf(config, "precision.param") == plan::DType::kFp64;
  return is_wide ? plan::DType::kFp64 : plan::DType::kFp32;
}

// `stages`: of a pipeline.
plan::UnitPolicy UnitsOf(const Config& config, const plan::Strategy& strategy, int32_t stages) {
  plan::UnitPolicy units = GetUnitPolicy(config);
  units.root = config.GetBool("unit.root");
  units.stages = stages;
  if (strategy.has_element_budgets) {
    units.persistence_threshold = config.GetInt("zero.persistence_threshold");
  }
  if (strategy.wraps) return units;
  if (!strategy.shards_optimizer) {
    units.bucket_bytes = config.GetInt("ddp.bucket_cap");
    units.first_bucket_bytes = std::min(units.first_bucket_bytes, units.bucket_bytes);
    return units;
  }
  const int64_t element_bytes = plan::BytesOf(MasterDTypeOf(config));
  units.bucket_bytes = config.GetInt("zero.reduce_bucket_size") * element_bytes;
  units.first_bucket_bytes = units.bucket_bytes;
  return units;
}

// What `key` chooses, whose choices are `words`.
template <typename Words>
auto ChosenOf(const Config& config, std::string_view key, const Words& words) {
  const auto value = plan::ValueOf(words, config.Get(key));
  SHARDSCOPE_CHECK(value.has_value());  // Canonical() lets no other word in
  return *value;
}

void SetNumerics(const Config& config, plan::Policy* policy) {
  if (Applies("accumulation", *policy->strategy, config.Get("preset"))) {
    for (const std::string_view key : kAccumulationKeys) {
      SetAccumulation(config, key, &policy->accumulation);
    }
  }
  // Whether it applies or not: what ranks keep has one dtype from the first step on, so that a
  // change to where it does not is refused.
  SetAccumulation(config, "precision.keep_low_grads", &policy->accumulation);
  policy->update.has_scaler = config.GetBool("scaler.enabled");
  policy->update.state = plan::StateTensorsOf(
      GetOptimizer(config),
      config.Get("optimizer.state") == "8bit" ? plan::StateForm::kBlocks : plan::StateForm::kMaster,
      config.GetFloat("optimizer.momentum") > 0);
}

}  // namespace

void SetAccumulation(const Config& config, std::string_view key, plan::Accumulation* accumulation) {
  if (key == "accumulation") {
    accumulation->sync = ChosenOf(config, key, plan::kGradientSyncWords);
  }
  if (key == "reshard_after_backward") accumulation->reshards = config.GetBool(key);
  if (key == "is_last_backward") accumulation->waits = config.GetBool(key);
  if (key == "precision.keep_low_grads") accumulation->keeps_dtype = config.GetBool(key);
}

const plan::Strategy& GetStrategy(const Config& config) {
  return *plan::FindStrategy(config.Get("strategy"));
}

plan::Preset GetPreset(const Config& config) {
  return ChosenOf(config, "preset", plan::kPresetWords);
}

plan::OptimizerKind GetOptimizer(const Config& config) {
  return words::ParseOptimizerKind(config.Get("optimizer.kind")).value();
}

plan::Policy ToPolicy(const Config& config) {
  plan::Policy policy;
  const auto small = [&](std::string_view key) { return static_cast<int>(config.GetInt(key)); };
  policy.preset = GetPreset(config);
  policy.strategy = &GetStrategy(config);
  policy.reshard_after_forward = config.GetBool("reshard_after_forward");
  policy.backward_prefetch = ChosenOf(config, "prefetch.backward", plan::kBackwardPrefetchWords);
  policy.backward_depth = small("prefetch.backward_depth");
  policy.forward_prefetch = small("prefetch.forward");
  policy.prefetch_lists = GetPrefetchLists(config);
  policy.prefetch_limit = small("prefetch.limit");
  policy.run_ahead = small("host.run_ahead");
  policy.budgets = {.prefetch_bucket_size = config.GetInt("zero.prefetch_bucket_size"),
                    .max_live_parameters = config.GetInt("zero.max_live_parameters"),
                    .max_reuse_distance = config.GetInt("zero.max_reuse_distance")};
  policy.overlap_comm =
      !Applies("zero.overlap_comm", *policy.strategy) || config.GetBool("zero.overlap_comm");
  policy.num_communicators = small("comm.communicators");
  policy.mesh = MeshOf(config).value();
  const int32_t pipeline_ranks = policy.mesh.size(plan::MeshDimension::kPipeline);
  const bool overlaps = pipeline_ranks > 1 && policy.strategy->overlaps_stages;
  const int64_t reshard_ranks = GetReshardRanks(config).value_or(0);
  if (reshard_ranks < policy.mesh.size(plan::MeshDimension::kShard)) {
    policy.post_forward_ranks = static_cast<int>(reshard_ranks);
  }
  policy.units = UnitsOf(config, *policy.strategy,
                         overlaps ? pipeline_ranks * small("pipeline.chunks") : pipeline_ranks);
  policy.units.tensor_ranks = policy.mesh.size(plan::MeshDimension::kTensor);
  policy.units.sequence_parallel =
      policy.units.tensor_ranks > 1 && config.GetBool("tensor.sequence_parallel");
  policy.tensor_async = policy.units.tensor_ranks > 1 && config.GetBool("tensor.async");
  if (overlaps) {
    policy.pipeline = ChosenOf(config, "pipeline.schedule", plan::kPipelineScheduleWords);
  }
  policy.micro_batches = small("train.micro_batches");
  policy.checkpointing = GetCheckpointing(config);
  policy.offload = ChosenOf(config, "offload", plan::kOffloadWords);
  SetNumerics(config, &policy);
  // A scaler too says of no unit before all whether it is updated.
  policy.update.clips = policy.offload != plan::Offload::kAll || policy.update.has_scaler ||
                        config.GetFloat("train.clip") > 0;
  policy.param_dtype = DTypeOf(config, "precision.param");
  policy.reduce_dtype = DTypeOf(config, "precision.reduce");
  policy.master_dtype = MasterDTypeOf(config);
  return policy;
}

}  // namespace shardscope::config
