#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/step.h"

namespace shardscope::plan {
namespace {

constexpr StreamIndex kPreUnshardStream = 2;
constexpr StreamIndex kUnshardStream = 3;
constexpr StreamIndex kPostBackwardStream = 4;

// FSDP1's waits and free points (PyTorch FullyShardedDataParallel: whole-stream waits, no copies
// around collectives), for FULL_SHARD, SHARD_GRAD_OP, HYBRID_SHARD and _HYBRID_SHARD_ZERO2.
class Fsdp1Builder final : public StepBuilder {
 public:
  Fsdp1Builder(const ModelDescription& model, const Policy& policy)
      : StepBuilder(model, policy,
                    {{"host", StreamRole::kHost},
                     {"compute", StreamRole::kCompute},
                     {"pre_unshard", StreamRole::kCopy},
                     {"unshard", StreamRole::kAllGather},
                     {"post_backward", StreamRole::kReduceScatter}}) {}

 protected:
  void StartForward() override { first_gather_ = true; }

  void PreForward(int32_t unit_index) override {
    // Of a micro-batch in flight they are still there.
    if (state(unit_index).parameters == kNone) EmitUnshard(unit_index);
  }

  void PostForward(int32_t unit_index) override {
    if (ReshardsAfterForward(unit_index)) EmitReshard(unit_index);
  }

  void PreBackward(int32_t unit_index) override {
    if (state(unit_index).parameters == kNone) EmitUnshard(unit_index);
  }

  void PostBackward(int32_t unit_index) override {
    const BufferId gradient = TakeGradient(unit_index);
    FreeAfterBackward(unit_index);
    // no_sync() keeps the unsharded gradient in the dtype of compute.
    if (gradient == kNone) return KeepGradient(unit_index, policy().param_dtype);
    EmitHeldReduction(unit_index, gradient);
  }

  void EndBackward() override { WaitForHeldReductions(); }

  StreamIndex ReduceStream() const override { return kPostBackwardStream; }

 private:
  // Cast where the dtypes differ, all-gather, and compute's wait for the unshard stream.
  void EmitUnshard(int32_t unit_index) {
    // Root pre-forward: no gather may read shards that the last optimizer step still writes.
    const bool first = std::exchange(first_gather_, false);
    const Shard own = BringShard(unit_index);
    Op gather =
        MakeCollective(OpKind::kAllGather, unit_index, kUnshardStream, policy().param_dtype);
    if (first) gather.dependencies = {AfterStream(kComputeStream)};
    if (policy().param_dtype == policy().master_dtype) {
      ReadShard(own, &gather);
    } else {
      const BufferId shard = NewBuffer(BufferKind::kCastShard, unit_index,
                                       ShardBytes(unit_index, policy().param_dtype));
      Op cast = MakeOp(OpKind::kCast, unit_index, kPreUnshardStream);
      cast.allocates = cast.writes = {shard};
      ReadShard(own, &cast);
      if (first) cast.dependencies.push_back(AfterStream(kComputeStream));
      Emit(std::move(cast));
      gather.reads = gather.frees = {shard};
      gather.dependencies.push_back(AfterStream(kPreUnshardStream));
    }
    const BufferId unsharded = NewBuffer(BufferKind::kUnsharded, unit_index,
                                         UnshardedBytes(unit_index, policy().param_dtype));
    gather.allocates = gather.writes = {unsharded};
    Emit(std::move(gather));
    state(unit_index).parameters = unsharded;
    // The whole stream, not this all-gather: what was issued there before must have ended as well.
    // An op of its own, because a prefetch issued after it must not be waited for.
    Op wait = MakeOp(OpKind::kRelease, unit_index, kComputeStream);
    wait.dependencies = {AfterStream(kUnshardStream)};
    Emit(std::move(wait));
  }

  bool first_gather_ = false;  // of this micro-batch's forward
};

}  // namespace

Schedule BuildFsdp1(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<Fsdp1Builder>(model, policy);
}

}  // namespace shardscope::plan
