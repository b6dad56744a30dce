#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/whole_parameters.h"

namespace shardscope::plan {
namespace {

constexpr StreamIndex kAllGatherStream = 3;

// ZeRO-1 and ZeRO-2 (DeepSpeed, stage_1_and_2.py): every rank has all parameters, updates its slice
// of them, and gathers the others' after that. ZeRO-1 keeps whole gradients, and reduces them with
// the last micro-batch; ZeRO-2 keeps its slice only, and reduces them with each.
class ZeroBuilder final : public WholeParametersBuilder {
 public:
  ZeroBuilder(const ModelDescription& model, const Policy& policy)
      : WholeParametersBuilder(model, policy,
                               {{"host", StreamRole::kHost},
                                {"compute", StreamRole::kCompute},
                                {"reduction", StreamRole::kReduceScatter},
                                {"all_gather", StreamRole::kAllGather}}) {}

 protected:
  void PreBackward(int32_t unit_index) override {
    if (keeps_gradients()) StartGradient(unit_index, state(unit_index).whole_gradient);
  }

  void PostBackward(int32_t unit_index) override {
    ReleaseParameters(unit_index);
    if (keeps_gradients()) {
      EndGradient(unit_index, state(unit_index).whole_gradient);
      if (last_micro_batch()) Reduce(unit_index, state(unit_index).whole_gradient);
    } else {
      Reduce(unit_index, std::exchange(state(unit_index).gradient, kNone));
    }
  }

  void EndBackward() override {
    if (keeps_gradients() && !last_micro_batch()) return;  // nothing was reduced
    Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
    wait.dependencies = {AfterStream(kReductionStream)};
    Emit(std::move(wait));
  }

  void PostOptimizer(int32_t unit_index, OpIndex optimizer) override {
    const BufferId whole = state(unit_index).whole_parameters;
    if (state(unit_index).parameter_shard != kNone) {
      Op copy = MakeOp(OpKind::kCopyIn, unit_index, kComputeStream);
      copy.reads = {state(unit_index).parameter_shard};
      copy.writes = {whole};
      optimizer = Emit(std::move(copy));
    }
    Op gather =
        MakeCollective(OpKind::kAllGather, unit_index, kAllGatherStream, policy().param_dtype);
    gather.reads = gather.writes = {whole};  // in place: own slot is the input
    gather.dependencies = {AfterEvent(optimizer)};
    Emit(std::move(gather));
  }

  void EndStep() override {
    // The next forward follows on compute.
    Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
    wait.dependencies = {AfterStream(kAllGatherStream)};
    Emit(std::move(wait));
  }

  StreamIndex ReduceStream() const override { return kReductionStream; }

 private:
  bool keeps_gradients() const { return !policy().strategy->shards_gradients; }

  // Into the rank's slice. Frees `gradient` if it is of this micro-batch only.
  void Reduce(int32_t unit_index, BufferId gradient) {
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
      return;
    }
    const bool reads_kept = input == state(unit_index).whole_gradient;
    const Reduced reduced = EmitReduceScatter(std::move(reduce), unit_index);
    if (!reads_kept) {
      Op release = MakeOp(OpKind::kRelease, unit_index, kReductionStream);
      release.frees = {input};
      Emit(std::move(release));
    }
    FinishReduction(unit_index, reduced);
  }
};

}  // namespace

Schedule BuildZero(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<ZeroBuilder>(model, policy);
}

}  // namespace shardscope::plan
