#include <utility>

#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/whole_parameters.h"

namespace shardscope::plan {
namespace {

// PyTorch's DistributedDataParallel with gradient_as_bucket_view (reducer.cpp): gradients are
// written into their bucket, and buckets are all-reduced in place, in their order, while backward
// goes on; before the last micro-batch nothing is sent (no_sync). Another reduce dtype is its
// bf16_compress_hook: a cast copy is reduced, and cast back.
class DdpBuilder final : public WholeParametersBuilder {
 public:
  DdpBuilder(const ModelDescription& model, const Policy& policy)
      : WholeParametersBuilder(model, policy,
                               {{"host", StreamRole::kHost},
                                {"compute", StreamRole::kCompute},
                                {"all_reduce", StreamRole::kAllReduce}}) {}

 protected:
  void PreBackward(int32_t unit_index) override {
    StartGradient(unit_index, state(unit_index).gradient_shard);
  }

  void PostBackward(int32_t unit_index) override {
    const BufferId bucket = state(unit_index).gradient_shard;
    ReleaseParameters(unit_index);
    EndGradient(unit_index, bucket);
    if (!last_micro_batch() || !IsTrained(unit_index)) return;
    BufferId reduced = bucket;
    if (policy().reduce_dtype != policy().master_dtype) {
      Op copy = MakeReduceCopyIn(unit_index, bucket, kComputeStream);
      reduced = copy.writes.front();
      Emit(std::move(copy));
    }
    Op reduce =
        MakeCollective(OpKind::kAllReduce, unit_index, kReductionStream, policy().reduce_dtype);
    reduce.reads = reduce.writes = {reduced};
    reduce.dependencies = {AfterStream(kComputeStream)};
    Emit(std::move(reduce));
    if (reduced == bucket) return;
    Op cast_back = MakeOp(OpKind::kAccumulate, unit_index, kReductionStream);
    cast_back.reads = cast_back.frees = {reduced};
    cast_back.writes = {bucket};
    Emit(std::move(cast_back));
  }

  void EndBackward() override {
    if (!last_micro_batch()) return;
    Op wait = MakeOp(OpKind::kRelease, kNone, kComputeStream);
    wait.dependencies = {AfterStream(kReductionStream)};
    Emit(std::move(wait));
  }

  StreamIndex ReduceStream() const override { return kReductionStream; }
};

}  // namespace

Schedule BuildDdp(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<DdpBuilder>(model, policy);
}

}  // namespace shardscope::plan
