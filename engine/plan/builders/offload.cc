// Offload in a step: shards come from the host's memory before they are gathered, reduced gradients
// go there, and the host updates (FSDP2's CPUOffloadPolicy, _fsdp_collectives.py:
// all_gather_copy_in, foreach_reduce). Copies have a stream for each direction.
#include <utility>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

StepBuilder::Shard StepBuilder::BringShard(int32_t unit_index) {
  const BufferId kept = state(unit_index).parameter_shard;
  if (!policy_.offloads) return {kept, kNone};
  Op op = MakeOp(OpKind::kCopyToDevice, unit_index, offload_stream_);
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

void StepBuilder::EmitToHost(int32_t unit_index, const Reduced& reduced, OpIndex last) {
  const BufferId kept = state(unit_index).gradient_shard;
  const bool is_first = IsFirstReduction(unit_index);
  Op copy = MakeOp(OpKind::kCopyToHost, unit_index, offload_stream_ + 1);
  copy.reads = copy.frees = {reduced.output};
  copy.dependencies = {AfterEvent(last)};
  // As on the device: the first gradient becomes the shard, later ones are added, and another dtype
  // has to be cast.
  const bool accumulates = !is_first || policy_.reduce_dtype != policy_.master_dtype;
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
    if (!is_first) add.reads.push_back(kept);
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

}  // namespace shardscope::plan
