#include "engine/plan/conflicts.h"

#include "engine/plan/state.h"

namespace shardscope::plan {

Conflict ConflictOfOffload(const Policy& policy) {
  if (policy.offload == Offload::kNone) return Conflict::kNone;
  if (!policy.strategy->shards_optimizer) return Conflict::kStrategy;
  if (policy.offload == Offload::kAll && !policy.strategy->shards_parameters) {
    return Conflict::kWholeParameters;
  }
  return HasSlots(policy) ? Conflict::kPreset : Conflict::kNone;
}

Conflict ConflictOfSlots(const Policy& policy) {
  if (!policy.strategy->reshards_after_forward || !policy.reshard_after_forward) {
    return Conflict::kStrategy;
  }
  return policy.mesh.size(MeshDimension::kPipeline) > 1 ? Conflict::kStages : Conflict::kNone;
}

Conflict ConflictOfPostForwardRanks(const Policy& policy, int ranks) {
  if (policy.preset != Preset::kFsdp2) return Conflict::kPreset;
  if (!policy.strategy->has_presets || !policy.strategy->reshards_after_forward ||
      !policy.reshard_after_forward) {
    return Conflict::kStrategy;
  }
  if (policy.mesh.size(MeshDimension::kPipeline) > 1) return Conflict::kStages;
  return policy.mesh.size(MeshDimension::kShard) % ranks == 0 ? Conflict::kNone : Conflict::kRanks;
}

Conflict ConflictOfReduceScatterOnly(const Policy& policy) {
  const bool is_chosen = policy.accumulation.sync == GradientSync::kReduceScatterOnly;
  return is_chosen && !policy.strategy->replicates_shards() ? Conflict::kStrategy : Conflict::kNone;
}

Conflict ConflictOfAccumulation(const Policy& policy) {
  const bool keeps_dtype = policy.accumulation.keeps_dtype;
  return keeps_dtype && policy.updates_on_host() ? Conflict::kOffload : Conflict::kNone;
}

Conflict ConflictOfScaler(const Policy& policy) {
  const bool conflicts = policy.update.has_scaler && policy.strategy->is_rooted;
  return conflicts ? Conflict::kStrategy : Conflict::kNone;
}

}  // namespace shardscope::plan
