#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/step.h"

namespace shardscope::plan {
namespace {

constexpr StreamIndex kAllReduceStream = 2;

// FSDP1 reduces on its post-backward stream, FSDP2 on a stream of its own.
Stream ReductionStream(Preset preset) {
  return {preset == Preset::kFsdp1 ? "post_backward" : "all_reduce", StreamRole::kAllReduce};
}

// NO_SHARD: every rank holds all parameters and all-reduces the gradients of each unit, as DDP with
// one bucket a unit.
class NoShardBuilder final : public StepBuilder {
 public:
  NoShardBuilder(const ModelDescription& model, const Policy& policy)
      : StepBuilder(model, policy,
                    {{"host", StreamRole::kHost},
                     {"compute", StreamRole::kCompute},
                     ReductionStream(policy.preset)},
                    1) {}

 protected:
  void PreForward(int32_t unit_index) override {
    // The "shard" is the whole parameter: compute reads it in place.
    if (policy().param_dtype == policy().master_dtype) {
      state(unit_index).parameters = state(unit_index).parameter_shard;
      return;
    }
    const BufferId parameters =
        NewBuffer(BufferKind::kCastShard, unit_index, ShardBytes(unit_index, policy().param_dtype));
    Op cast = MakeOp(OpKind::kCast, unit_index, kComputeStream);
    cast.allocates = cast.writes = {parameters};
    cast.reads = {state(unit_index).parameter_shard};
    Emit(std::move(cast));
    state(unit_index).parameters = parameters;
  }

  void PostForward(int32_t) override {}

  void PreBackward(int32_t) override {}

  void PostBackward(int32_t unit_index) override {
    const BufferId parameters = std::exchange(state(unit_index).parameters, kNone);
    if (parameters != state(unit_index).parameter_shard) {
      Op release = MakeOp(OpKind::kRelease, unit_index, kComputeStream);
      release.frees = {parameters};
      Emit(std::move(release));
    }
    // In place on the gradient; only another reduce dtype needs a copy.
    const BufferId gradient = std::exchange(state(unit_index).gradient, kNone);
    BufferId reduced = gradient;
    const bool cast = policy().reduce_dtype != policy().param_dtype;
    // FSDP1 casts on the stream that reduces, and holds the gradient as with shards (fsdp1.cc).
    const bool casts_there = cast && policy().preset == Preset::kFsdp1;
    if (cast) {
      Op copy =
          MakeReduceCopyIn(unit_index, gradient, casts_there ? kAllReduceStream : kComputeStream);
      if (!casts_there) copy.frees = {gradient};
      reduced = copy.writes.front();
      Emit(std::move(copy));
    }
    Op reduce =
        MakeCollective(OpKind::kAllReduce, unit_index, kAllReduceStream, policy().reduce_dtype);
    reduce.reads = reduce.writes = {reduced};
    if (!casts_there) reduce.dependencies = {AfterStream(kComputeStream)};
    Emit(std::move(reduce));
    if (casts_there) {
      Op release = MakeOp(OpKind::kRelease, unit_index, kAllReduceStream);
      release.frees = {gradient};
      Emit(std::move(release));
    }
    EmitAccumulate(unit_index, reduced);
  }

  void EndBackward() override {
    Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
    wait.dependencies = {AfterStream(kAllReduceStream)};
    Emit(std::move(wait));
  }

  StreamIndex ReduceStream() const override { return kAllReduceStream; }
};

}  // namespace

Schedule BuildNoShard(const ModelDescription& model, const Policy& policy) {
  return NoShardBuilder(model, policy).Build();
}

}  // namespace shardscope::plan
