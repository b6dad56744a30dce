// Gradients of several micro-batches: what is added up, where, and when it is reduced.
#include <utility>
#include <vector>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

// _fsdp_collectives.py, foreach_reduce: partial_reduce_output, on the stream that reduces. In the
// dtype of a shard on the device that is the sum itself.
StepBuilder::Reduced StepBuilder::AddToPartial(int32_t unit_index, const Reduced& reduced) {
  if (reduced.output == kNone) return reduced;
  const bool is_shard =
      policy_.reduce_dtype == policy_.gradient_dtype() && !policy_.updates_on_host();
  BufferId& partial = is_shard ? state(unit_index).gradient_shard : state(unit_index).partial_shard;
  if (partial == kNone) {
    partial = reduced.output;
    return reduced;
  }
  Op op = MakeAccumulate(unit_index, ReduceStream(), reduced.output, partial, true);
  return {Emit(std::move(op)), is_shard ? kNone : partial};
}

// As in the shard of a rank that updates on its device: the first gradient becomes the sum, later
// ones are added, and another dtype has to be cast.
OpIndex StepBuilder::AddToWaiting(int32_t unit_index, const Reduced& reduced) {
  BufferId& waiting = state(unit_index).waiting_shard;
  const bool adds = waiting != kNone;
  if (!adds && policy_.reduce_dtype == policy_.gradient_dtype()) {
    waiting = reduced.output;
    return reduced.op;
  }
  std::vector<BufferId> allocates;
  if (!adds) {
    waiting = NewBuffer(BufferKind::kGradientShard, unit_index,
                        TrainedShardBytes(unit_index, policy_.gradient_dtype()));
    allocates = {waiting};
  }
  Op op = MakeAccumulate(unit_index, AccumulateStream(), reduced.output, waiting, adds);
  op.allocates = std::move(allocates);
  return Emit(std::move(op));
}

Op StepBuilder::MakeAccumulate(int32_t unit_index, StreamIndex stream, BufferId from, BufferId to,
                               bool adds) {
  Op op = MakeOp(OpKind::kAccumulate, unit_index, stream);
  op.reads = {from};
  if (adds) op.reads.push_back(to);
  op.writes = {to};
  op.frees = {from};
  return op;
}

OpIndex StepBuilder::EmitAccumulate(int32_t unit_index, BufferId reduced) {
  const BufferId shard = state(unit_index).gradient_shard;
  // A sum of all micro-batches overwrites.
  const bool adds =
      policy_.accumulation.sync == GradientSync::kReduce && !IsFirstReduction(unit_index);
  return Emit(MakeAccumulate(unit_index, AccumulateStream(), reduced, shard, adds));
}

BufferId StepBuilder::TakeGradient(int32_t unit_index) {
  UnitState& unit_state = state(unit_index);
  if (unit_state.accumulated_gradient != kNone) {
    Emit(MakeAccumulate(unit_index, kComputeStream, std::exchange(unit_state.gradient, kNone),
                        unit_state.accumulated_gradient, true));
  }
  if (!ReducesGradients()) return kNone;
  BufferId& taken = unit_state.accumulated_gradient != kNone ? unit_state.accumulated_gradient
                                                             : unit_state.gradient;
  return std::exchange(taken, kNone);
}

void StepBuilder::KeepGradient(int32_t unit_index, DType dtype) {
  UnitState& unit_state = state(unit_index);
  if (unit_state.gradient == kNone) return;
  unit_state.accumulated_gradient = std::exchange(unit_state.gradient, kNone);
  if (dtype == policy_.param_dtype) return;
  const BufferId wide =
      NewBuffer(BufferKind::kAccumulatedGradient, unit_index, TrainedBytes(unit_index, dtype));
  Op op = MakeAccumulate(unit_index, kComputeStream, unit_state.accumulated_gradient, wide, false);
  op.allocates = {wide};
  Emit(std::move(op));
  unit_state.accumulated_gradient = wide;
}

OpIndex StepBuilder::EmitHeldReduction(int32_t unit_index, BufferId gradient) {
  // The collective reads the gradient itself; only another reduce dtype needs a copy.
  BufferId input = gradient;
  std::vector<BufferId> held = {gradient};
  const bool casts = policy_.reduce_dtype != policy_.param_dtype;
  if (casts) {
    Op copy = MakeReduceCopyIn(unit_index, gradient, ReduceStream());
    input = copy.writes.front();
    held.push_back(input);
    Emit(std::move(copy));
  }
  Op reduce =
      MakeCollective(OpKind::kReduceScatter, unit_index, ReduceStream(), policy_.reduce_dtype);
  reduce.reads = {input};
  if (!casts) reduce.dependencies = {AfterStream(kComputeStream)};
  const Reduced reduced = EmitReduceScatter(std::move(reduce), unit_index);
  // record_stream: compute's memory stays taken until the reduction is done, also where only the
  // cast has read it (_post_backward_hook: autograd_computed_grad).
  Op release = MakeOp(OpKind::kRelease, unit_index, ReduceStream());
  release.frees = std::move(held);
  const OpIndex released = Emit(std::move(release));
  FinishReduction(unit_index, reduced);
  return released;
}

void StepBuilder::WaitForHeldReductions() {
  if (!WaitsForReductions()) return;
  Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
  wait.dependencies = {AfterStream(ReduceStream())};
  if (has_replicas()) wait.dependencies.push_back(AfterStream(ReplicaStream()));
  Emit(std::move(wait));
}

}  // namespace shardscope::plan
