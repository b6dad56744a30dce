#include "engine/plan/state.h"

#include <algorithm>

namespace shardscope::plan {

int ShardRanks(const Policy& policy) { return policy.mesh.size(MeshDimension::kShard); }

bool KeepsWhole(const Unit& unit, const Policy& policy) {
  const Strategy& strategy = *policy.strategy;
  if (!strategy.shards_parameters) return strategy.shards_optimizer;
  return strategy.has_element_budgets &&
         std::ranges::all_of(unit.parameters, [&](const Parameter& parameter) {
           return NumElements(parameter.shape) < policy.units.persistence_threshold;
         });
}

std::vector<Buffer> StateBuffers(const ModelDescription& model, const Policy& policy,
                                 int32_t place) {
  const Strategy& strategy = *policy.strategy;
  const int shard_ranks = ShardRanks(policy);
  const bool mixes = policy.param_dtype != policy.master_dtype;
  const std::vector<int32_t> stages = StageOfUnits(model.segments, model.units.size());
  std::vector<Buffer> buffers;
  for (int32_t unit = 0; unit < static_cast<int32_t>(model.units.size()); ++unit) {
    const int32_t stage = stages[static_cast<size_t>(unit)];
    if (stage % policy.mesh.size(MeshDimension::kPipeline) != place) continue;
    const Unit& description = model.units[static_cast<size_t>(unit)];
    const int64_t elements = PaddedShardElements(description, shard_ranks);
    const auto add = [&](BufferKind kind, int64_t bytes) {
      buffers.push_back({.kind = kind, .unit = unit, .bytes = bytes, .persistent = true});
    };
    const int64_t shard_bytes = elements * BytesOf(policy.master_dtype);
    const int64_t whole_bytes = elements * shard_ranks * BytesOf(policy.param_dtype);
    // Without a slice of its own the rank's part of the whole is the master.
    const bool has_whole_parameters = KeepsWhole(description, policy);
    const bool has_whole_gradient = strategy.shards_optimizer && !strategy.shards_gradients;
    if (!has_whole_parameters || mixes) add(BufferKind::kParameterShard, shard_bytes);
    if (has_whole_parameters) add(BufferKind::kUnsharded, whole_bytes);
    if (has_whole_gradient) add(BufferKind::kGradient, whole_bytes);
    if (!has_whole_gradient || mixes || policy.reduce_dtype != policy.master_dtype) {
      add(BufferKind::kGradientShard, shard_bytes);
    }
    add(BufferKind::kOptimizerState, 2 * shard_bytes);
  }
  return buffers;
}

}  // namespace shardscope::plan
