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

bool IsBroughtFromHost(const Unit& unit, const Policy& policy) {
  return policy.offload == Offload::kAll && !KeepsWhole(unit, policy);
}

namespace {

// Unit i takes slot i % kNumSlots; a slot is named after the largest of its units.
void AddSlots(const ModelDescription& model, const Policy& policy, std::vector<Buffer>* buffers) {
  const auto num_units = static_cast<int32_t>(model.units.size());
  const int shard_ranks = ShardRanks(policy);
  for (const BufferKind kind : {BufferKind::kParameterSlot, BufferKind::kGradientSlot}) {
    const auto elements = [&](int32_t index) {
      const Unit& unit = model.units[static_cast<size_t>(index)];
      return shard_ranks *
             PaddedShardElements(HoldsTrainedPart(kind) ? TrainedPart(unit) : unit, shard_ranks);
    };
    for (int32_t slot = 0; slot < std::min(kNumSlots, num_units); ++slot) {
      int32_t largest = slot;
      for (int32_t unit = slot; unit < num_units; unit += kNumSlots) {
        if (elements(unit) > elements(largest)) largest = unit;
      }
      buffers->push_back({.kind = kind,
                          .unit = largest,
                          .bytes = elements(largest) * BytesOf(policy.param_dtype),
                          .persistent = true});
    }
  }
}

}  // namespace

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
    const Unit trained = TrainedPart(description);
    const int64_t elements = PaddedShardElements(description, shard_ranks);
    const int64_t trained_elements = PaddedShardElements(trained, shard_ranks);
    const auto add = [&](BufferKind kind, int64_t bytes) {
      if (bytes == 0) return;  // none of it is trained, or the optimizer keeps nothing
      buffers.push_back({.kind = kind, .unit = unit, .bytes = bytes, .persistent = true});
    };
    const int64_t shard_bytes = elements * BytesOf(policy.master_dtype);
    const int64_t whole_bytes = elements * shard_ranks * BytesOf(policy.param_dtype);
    const int64_t state_bytes =
        StateBytes(trained, shard_ranks, policy.update.state, policy.master_dtype);
    // Without a slice of its own the rank's part of the whole is the master.
    const bool has_whole_parameters = KeepsWhole(description, policy);
    const bool has_whole_gradient = strategy.shards_optimizer && !strategy.shards_gradients;
    // What the host does not update stays where it is.
    const bool is_brought = IsBroughtFromHost(description, policy);
    const bool has_host_master = is_brought || (policy.updates_on_host() && trained_elements > 0);
    if (has_host_master) {
      add(BufferKind::kHostParameterShard, shard_bytes);
      add(BufferKind::kHostGradientShard, trained_elements * BytesOf(policy.master_dtype));
      add(BufferKind::kHostOptimizerState, state_bytes);
    }
    if (is_brought) continue;
    if (!has_whole_parameters || (mixes && !has_host_master))
      add(BufferKind::kParameterShard, shard_bytes);
    if (has_whole_parameters) add(BufferKind::kUnsharded, whole_bytes);
    if (has_whole_gradient) {
      add(BufferKind::kGradient, trained_elements * shard_ranks * BytesOf(policy.param_dtype));
    }
    if (has_host_master) continue;
    if (!has_whole_gradient || mixes || policy.reduce_dtype != policy.master_dtype) {
      add(BufferKind::kGradientShard, trained_elements * BytesOf(policy.gradient_dtype()));
    }
    add(BufferKind::kOptimizerState, state_bytes);
  }
  if (HasSlots(policy)) AddSlots(model, policy, &buffers);
  return buffers;
}

SparedState SparedByFrozen(const ModelDescription& model, const Policy& policy) {
  ModelDescription all = model;
  for (Unit& unit : all.units) {
    for (Parameter& parameter : unit.parameters) parameter.is_frozen = false;
  }
  SparedState most;
  for (int32_t place = 0; place < policy.mesh.size(MeshDimension::kPipeline); ++place) {
    SparedState spared;
    const auto add = [&](const std::vector<Buffer>& buffers, int64_t sign) {
      for (const Buffer& buffer : buffers) {
        if (!HoldsTrainedPart(buffer.kind) || buffer.kind == BufferKind::kGradientSlot) continue;
        const bool is_optimizers = TraitsOf(buffer.kind).kept_as == KeptAs::kOptimizerState;
        (is_optimizers ? spared.optimizer_bytes : spared.gradient_bytes) += sign * buffer.bytes;
      }
    };
    add(StateBuffers(all, policy, place), 1);
    add(StateBuffers(model, policy, place), -1);
    if (spared.gradient_bytes + spared.optimizer_bytes >=
        most.gradient_bytes + most.optimizer_bytes) {
      most = spared;
    }
  }
  return most;
}

bool HasSlots(Preset preset, const Strategy& strategy) {
  return preset == Preset::kDoubleBuffer && strategy.shards_as_fsdp();
}

}  // namespace shardscope::plan
