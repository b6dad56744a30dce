// Offload in a step: reduced gradients go to the host, and it updates. With Offload::kAll shards
// come from its memory before they are gathered (FSDP2's CPUOffloadPolicy, _fsdp_collectives.py:
// all_gather_copy_in, foreach_reduce; DeepSpeed's offload_param, partition_parameters.py); with
// kOptimizer, and where ranks keep a unit whole, the rank's copy is renewed after the update
// (DeepSpeed, stage_1_and_2.py and stage3.py: step). Copies have a stream for each direction.
#include <utility>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

StepBuilder::Shard StepBuilder::BringShard(int32_t unit_index, Phase phase,
                                           std::vector<Dependency> dependencies) {
  const BufferId kept = state(unit_index).parameter_shard;
  if (!IsBroughtFromHost(unit(unit_index), policy_)) return {kept, kNone};
  Op op = MakeOp(OpKind::kCopyToDevice, unit_index, offload_stream_);
  op.phase = phase;
  op.dependencies = std::move(dependencies);
  const BufferId shard = NewBuffer(BufferKind::kParameterShard, unit_index,
                                   ShardBytes(unit_index, policy_.master_dtype));
  op.reads = {kept};
  op.allocates = op.writes = {shard};
  return {shard, Emit(std::move(op))};
}

void StepBuilder::ReadShard(const Shard& shard, Op* op) {
  op->reads = {shard.buffer};
  if (shard.brought == kNone) return;
  op->frees.push_back(shard.buffer);
  op->dependencies.push_back(AfterEvent(shard.brought));
}

void StepBuilder::EmitToHost(int32_t unit_index, BufferId reduced, Dependency ready) {
  const BufferId kept = state(unit_index).gradient_shard;
  const bool adds = !SumsBeforeShard() && !IsFirstReduction(unit_index);
  Op copy = MakeOp(OpKind::kCopyToHost, unit_index, offload_stream_ + 1);
  copy.reads = copy.frees = {reduced};
  copy.dependencies = {ready};
  // As on the device: the first gradient becomes the shard, later ones are added, and another dtype
  // has to be cast, unless it was on the device.
  const bool casts = policy_.reduce_dtype != policy_.master_dtype && !WaitsOnDevice();
  const bool accumulates = adds || casts;
  BufferId target = kept;
  if (accumulates) {
    target = NewBuffer(BufferKind::kHostReduced, unit_index,
                       TrainedShardBytes(unit_index, policy_.reduce_dtype));
    copy.allocates = {target};
  }
  copy.writes = {target};
  OpIndex arrived = Emit(std::move(copy));
  if (accumulates) {
    Op add = MakeOp(OpKind::kAccumulate, unit_index, UpdateStream());
    add.reads = {target};
    if (adds) add.reads.push_back(kept);
    add.writes = {kept};
    add.frees = {target};
    add.dependencies = {AfterEvent(arrived)};
    arrived = Emit(std::move(add));
  }
  if (!last_micro_batch() || !UpdatesEarly(unit_index)) return;
  const StageRun now = now_;
  Enter({.phase = Phase::kOptimizer, .micro_batch = kNone, .stage = now.stage});
  program_.ops[static_cast<size_t>(EmitUpdate(unit_index, kNone, kNone))].dependencies = {
      AfterEvent(arrived)};
  Enter(now);
}

OpIndex StepBuilder::RenewShard(int32_t unit_index, OpIndex update) {
  if (!policy_.updates_on_host() || IsBroughtFromHost(unit(unit_index), policy_)) return update;
  UnitState& unit_state = state(unit_index);
  Op copy = MakeOp(OpKind::kCopyToDevice, unit_index, offload_stream_);
  copy.reads = {unit_state.host_master};
  copy.writes = {unit_state.parameter_shard == kNone ? unit_state.whole_parameters
                                                     : unit_state.parameter_shard};
  copy.dependencies = {AfterEvent(update)};
  return Emit(std::move(copy));
}

}  // namespace shardscope::plan
