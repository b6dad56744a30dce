// Gradients of several micro-batches: what is added up, where, and when it is reduced.
#include <utility>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

// _fsdp_collectives.py, foreach_reduce: partial_reduce_output, on the stream that reduces. In the
// dtype of the shard that is the sum itself.
StepBuilder::Reduced StepBuilder::AddToPartial(int32_t unit_index, const Reduced& reduced) {
  if (reduced.output == kNone) return reduced;
  const bool is_shard = policy_.reduce_dtype == policy_.gradient_dtype();
  BufferId& partial = is_shard ? state(unit_index).gradient_shard : state(unit_index).partial_shard;
  if (partial == kNone) {
    partial = reduced.output;
    return reduced;
  }
  Op op = MakeAccumulate(unit_index, ReduceStream(), reduced.output, partial, true);
  return {Emit(std::move(op)), is_shard ? kNone : partial};
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
  const StreamIndex stream = has_replicas() ? ReplicaStream() : ReduceStream();
  // A sum of all micro-batches overwrites.
  const bool adds =
      policy_.accumulation.sync == GradientSync::kReduce && !IsFirstReduction(unit_index);
  return Emit(MakeAccumulate(unit_index, stream, reduced, shard, adds));
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

}  // namespace shardscope::plan
