#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/whole_parameters.h"

namespace shardscope::plan {
namespace {

// FSDP1 reduces on its post-backward stream, FSDP2 on a stream of its own.
Stream ReductionStream(Preset preset) {
  return {preset == Preset::kFsdp1 ? "post_backward" : "all_reduce", StreamRole::kAllReduce};
}

// NO_SHARD: every rank holds all parameters and all-reduces the gradients of each unit, as DDP with
// one bucket a unit.
class NoShardBuilder final : public WholeParametersBuilder {
 public:
  NoShardBuilder(const ModelDescription& model, const Policy& policy)
      : WholeParametersBuilder(model, policy,
                               {{"host", StreamRole::kHost},
                                {"compute", StreamRole::kCompute},
                                ReductionStream(policy.preset)}) {}

 protected:
  void PostBackward(int32_t unit_index) override {
    ReleaseParameters(unit_index);
    if (!IsTrained(unit_index)) return;
    // In place on the gradient; only another reduce dtype needs a copy.
    const BufferId gradient = std::exchange(state(unit_index).gradient, kNone);
    BufferId reduced = gradient;
    const bool cast = policy().reduce_dtype != policy().param_dtype;
    // FSDP1 casts on the stream that reduces, and holds the gradient as with shards (fsdp1.cc).
    const bool casts_there = cast && policy().preset == Preset::kFsdp1;
    if (cast) {
      Op copy =
          MakeReduceCopyIn(unit_index, gradient, casts_there ? kReductionStream : kComputeStream);
      if (!casts_there) copy.frees = {gradient};
      reduced = copy.writes.front();
      Emit(std::move(copy));
    }
    Op reduce =
        MakeCollective(OpKind::kAllReduce, unit_index, kReductionStream, policy().reduce_dtype);
    reduce.reads = reduce.writes = {reduced};
    if (!casts_there) reduce.dependencies = {AfterStream(kComputeStream)};
    Emit(std::move(reduce));
    if (casts_there) {
      Op release = MakeOp(OpKind::kRelease, unit_index, kReductionStream);
      release.frees = {gradient};
      Emit(std::move(release));
    }
    EmitAccumulate(unit_index, reduced);
  }

  void EndBackward() override {
    Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
    wait.dependencies = {AfterStream(kReductionStream)};
    Emit(std::move(wait));
  }

  StreamIndex ReduceStream() const override { return kReductionStream; }
};

}  // namespace

Schedule BuildNoShard(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<NoShardBuilder>(model, policy);
}

}  // namespace shardscope::plan
