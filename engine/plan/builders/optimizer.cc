// The end of a step: gradients are unscaled, their norm is taken, and every unit is updated.
#include <utility>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

void StepBuilder::Optimizer() {
  if (!KeepsState()) return;
  BufferId found_inf = kNone;
  OpIndex checked = kNone;
  if (policy_.update.has_scaler) {
    found_inf = NewBuffer(BufferKind::kFoundInf, kNone, BytesOf(DType::kFp64));
    checked = EmitUnscale(found_inf);
  }
  const BufferId norm = NewBuffer(BufferKind::kNorm, kNone, BytesOf(DType::kFp64));
  Op local = MakeOp(OpKind::kGradNorm, kNone, UpdateStream());
  local.dependencies = AfterGradients();
  for (const int32_t own : trained_units_) local.reads.push_back(state(own).reduced_gradient());
  local.allocates = local.writes = {norm};
  const OpIndex ready = EmitScalarReduce(norm, Emit(std::move(local)));
  std::vector<int32_t> left;
  for (const int32_t index : trained_units_) {
    if (!UpdatesEarly(index)) left.push_back(index);
  }
  for (const int32_t index : left) {
    const OpIndex update = EmitUpdate(index, norm, found_inf);
    Op& op = program_.ops[static_cast<size_t>(update)];
    // The others follow on the same stream.
    if (index == left.front()) {
      op.dependencies = {AfterEvent(ready)};
      if (checked != kNone) op.dependencies.push_back(AfterEvent(checked));
    }
    if (index == left.back()) {
      op.frees = {norm};
      if (found_inf != kNone) op.frees.push_back(found_inf);
    }
    PostOptimizer(index, RenewShard(index, update));
  }
  if (left.empty()) {  // other stages have what is trained: the rank only takes the norm
    Op op = MakeOp(OpKind::kOptimizer, kNone, UpdateStream());
    op.dependencies = {AfterEvent(ready)};
    op.reads = op.frees = {norm};
    if (found_inf != kNone) {
      op.dependencies.push_back(AfterEvent(checked));
      op.reads.push_back(found_inf);
      op.frees.push_back(found_inf);
    }
    Emit(std::move(op));
  }
  EndStep();
}

OpIndex StepBuilder::EmitUpdate(int32_t unit_index, BufferId norm, BufferId found_inf) {
  const UnitState& unit_state = state(unit_index);
  Op op = MakeOp(OpKind::kOptimizer, unit_index, UpdateStream());
  op.reads = {unit_state.reduced_gradient()};
  if (norm != kNone) op.reads.push_back(norm);
  op.reads.push_back(unit_state.master());
  op.writes = {unit_state.master()};
  if (unit_state.optimizer_state != kNone) {
    op.reads.push_back(unit_state.optimizer_state);
    op.writes.push_back(unit_state.optimizer_state);
  }
  if (found_inf != kNone) op.reads.push_back(found_inf);
  return Emit(std::move(op));
}

// The last gradients come to the stream that updates from elsewhere.
std::vector<Dependency> StepBuilder::AfterGradients() const {
  if (policy_.updates_on_host()) return {AfterStream(offload_stream_ + 1)};
  if (AddsUpWholeParameters()) return {AfterStream(tensor_.stream)};
  return {};
}

// FSDP's ShardedGradScaler: unscale_() looks for what is not finite, then all ranks tell each
// other.
OpIndex StepBuilder::EmitUnscale(BufferId found_inf) {
  Op op = MakeOp(OpKind::kUnscale, kNone, UpdateStream());
  op.dependencies = AfterGradients();
  for (const int32_t own : trained_units_) op.reads.push_back(state(own).reduced_gradient());
  op.allocates = op.writes = {found_inf};
  return EmitScalarReduce(found_inf, Emit(std::move(op)));
}

// Where every rank holds whole gradients, what it has found is true of all of them already.
OpIndex StepBuilder::EmitScalarReduce(BufferId scalar, OpIndex ready) {
  if (!policy_.strategy->shards_optimizer && !HasPipeline() && !HasTensor()) return ready;
  Op reduce = MakeOp(OpKind::kAllReduce, kNone, ReduceStream());
  reduce.communicator = norm_communicator_;
  reduce.dtype = DType::kFp64;
  reduce.payload_bytes = BytesOf(reduce.dtype);
  reduce.wire_bytes =
      WireBytes(reduce.kind, reduce.payload_bytes, schedule_.GroupSize(norm_communicator_));
  reduce.reads = reduce.writes = {scalar};
  reduce.dependencies = {AfterEvent(ready)};
  return Emit(std::move(reduce));
}

}  // namespace shardscope::plan
