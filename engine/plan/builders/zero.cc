#include "engine/plan/builders/zero.h"

#include <utility>

#include "engine/plan/builders/builders.h"

namespace shardscope::plan {

ZeroBuilder::ZeroBuilder(const ModelDescription& model, const Policy& policy)
    : WholeParametersBuilder(model, policy,
                             {{"host", StreamRole::kHost},
                              {"compute", StreamRole::kCompute},
                              {"reduction", StreamRole::kReduceScatter},
                              {"all_gather", StreamRole::kAllGather}}) {}

void ZeroBuilder::PreBackward(int32_t unit_index) {
  if (keeps_gradients()) StartGradient(unit_index, state(unit_index).whole_gradient);
}

void ZeroBuilder::PostBackward(int32_t unit_index) {
  ReleaseParameters(unit_index);
  if (!IsTrained(unit_index)) return;
  const bool reduces = !keeps_gradients() || last_micro_batch();
  // A bucket is reduced once the one before is, which then is free (stage_1_and_2.py:
  // average_tensor, where both streams wait for each other): two at most are there at once.
  const bool is_first = !std::exchange(has_reduced_, reduces);
  if (reduces && !is_first && policy().overlap_comm) WaitForReductions(unit_index);
  if (keeps_gradients()) {
    EndGradient(unit_index, state(unit_index).whole_gradient);
    if (last_micro_batch()) Reduce(unit_index, state(unit_index).whole_gradient);
  } else {
    Reduce(unit_index, std::exchange(state(unit_index).gradient, kNone));
  }
}

void ZeroBuilder::EndBackward() {
  if (keeps_gradients() && !last_micro_batch()) return;  // nothing was reduced
  has_reduced_ = false;
  WaitForReductions(kNone);
}

void ZeroBuilder::PostOptimizer(int32_t unit_index, OpIndex optimizer) {
  const BufferId whole = state(unit_index).whole_parameters;
  if (state(unit_index).parameter_shard != kNone) {
    Op copy = MakeOp(OpKind::kCopyIn, unit_index, kComputeStream);
    copy.reads = {state(unit_index).parameter_shard};
    copy.writes = {whole};
    optimizer = Emit(std::move(copy));
  }
  Op gather =
      MakeCollective(OpKind::kAllGather, unit_index, kAllGatherStream, policy().param_dtype);
  gather.payload_bytes = TrainedBytes(unit_index, gather.dtype);  // nothing else has changed
  gather.wire_bytes = WireBytes(gather.kind, gather.payload_bytes, shard_ranks());
  gather.reads = gather.writes = {whole};  // in place: own slot is the input
  gather.dependencies = {AfterEvent(optimizer)};
  const OpIndex gathered = Emit(std::move(gather));
  if (!policy().overlap_comm) EmitWait(unit_index, gathered);
}

void ZeroBuilder::EndStep() {
  // The next forward follows on compute.
  Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
  wait.dependencies = {AfterStream(kAllGatherStream)};
  Emit(std::move(wait));
}

void ZeroBuilder::Reduce(int32_t unit_index, BufferId gradient) {
  const bool is_kept = gradient == state(unit_index).whole_gradient;
  BufferId input = gradient;
  if (policy().reduce_dtype != policy().param_dtype) {
    Op copy = MakeReduceCopyIn(unit_index, gradient, kComputeStream);
    if (!is_kept) copy.frees = {gradient};
    input = copy.writes.front();
    Emit(std::move(copy));
  }
  Op reduce =
      MakeCollective(OpKind::kReduceScatter, unit_index, kReductionStream, policy().reduce_dtype);
  reduce.reads = {input};
  reduce.dependencies = {AfterStream(kComputeStream)};
  if (state(unit_index).gradient_shard == kNone) {
    reduce.writes = {input};  // in place: the rank's slot is the output
    Emit(std::move(reduce));
  } else {
    const bool reads_kept = input == state(unit_index).whole_gradient;
    const Reduced reduced = EmitReduceScatter(std::move(reduce), unit_index);
    if (!reads_kept) {
      Op release = MakeOp(OpKind::kRelease, unit_index, kReductionStream);
      release.frees = {input};
      Emit(std::move(release));
    }
    FinishReduction(unit_index, reduced);
  }
  if (!policy().overlap_comm) WaitForReductions(unit_index);
}

void ZeroBuilder::WaitForReductions(int32_t unit_index) {
  Op wait = MakeOp(OpKind::kRelease, unit_index, kComputeStream);
  wait.dependencies = {AfterStream(kReductionStream)};
  Emit(std::move(wait));
}

void ZeroBuilder::EmitWait(int32_t unit_index, OpIndex op) {
  Op wait = MakeOp(OpKind::kRelease, unit_index, kComputeStream);
  wait.dependencies = {AfterEvent(op)};
  Emit(std::move(wait));
}

Schedule BuildZero(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<ZeroBuilder>(model, policy);
}

}  // namespace shardscope::plan
