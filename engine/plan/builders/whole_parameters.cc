#include "engine/plan/builders/whole_parameters.h"

#include <utility>

namespace shardscope::plan {

void WholeParametersBuilder::PreForward(int32_t unit_index) {
  UnitState& unit_state = state(unit_index);
  if (unit_state.parameters != kNone) return;  // of a micro-batch that is still to come back
  if (unit_state.whole_parameters != kNone) {
    unit_state.parameters = unit_state.whole_parameters;
    return;
  }
  // The "shard" is the whole parameter.
  if (policy().param_dtype == policy().master_dtype) {
    unit_state.parameters = unit_state.parameter_shard;
    return;
  }
  const BufferId parameters =
      NewBuffer(BufferKind::kCastShard, unit_index, ShardBytes(unit_index, policy().param_dtype));
  Op cast = MakeOp(OpKind::kCast, unit_index, kComputeStream);
  cast.allocates = cast.writes = {parameters};
  cast.reads = {unit_state.parameter_shard};
  Emit(std::move(cast));
  unit_state.parameters = parameters;
}

void WholeParametersBuilder::ReleaseParameters(int32_t unit_index) {
  if (IsInFlight()) return;
  const BufferId parameters = std::exchange(state(unit_index).parameters, kNone);
  if (parameters == state(unit_index).parameter_shard ||
      parameters == state(unit_index).whole_parameters) {
    return;
  }
  Op release = MakeOp(OpKind::kRelease, unit_index, kComputeStream);
  release.frees = {parameters};
  Emit(std::move(release));
}

void WholeParametersBuilder::StartGradient(int32_t unit_index, BufferId kept) {
  const bool same_form =
      policy().param_dtype == policy().master_dtype || kept == state(unit_index).whole_gradient;
  if (first_micro_batch() && same_form) state(unit_index).gradient = kept;
}

void WholeParametersBuilder::EndGradient(int32_t unit_index, BufferId kept) {
  const BufferId gradient = std::exchange(state(unit_index).gradient, kNone);
  if (gradient == kept) return;
  Op op = MakeOp(OpKind::kAccumulate, unit_index, kComputeStream);
  op.reads = {gradient};
  if (!first_micro_batch()) op.reads.push_back(kept);
  op.writes = {kept};
  op.frees = {gradient};
  Emit(std::move(op));
}

}  // namespace shardscope::plan
