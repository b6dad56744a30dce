#include "engine/plan/builders/builders.h"
#include "engine/plan/builders/whole_parameters.h"

namespace shardscope::plan {
namespace {

// One rank that sends nothing: what every other strategy is compared with.
class SingleBuilder final : public WholeParametersBuilder {
 public:
  SingleBuilder(const ModelDescription& model, const Policy& policy)
      : WholeParametersBuilder(model, policy,
                               {{"host", StreamRole::kHost}, {"compute", StreamRole::kCompute}}) {}

 protected:
  void PreBackward(int32_t unit_index) override {
    StartGradient(unit_index, state(unit_index).gradient_shard);
  }
  void PostBackward(int32_t unit_index) override {
    ReleaseParameters(unit_index);
    EndGradient(unit_index, state(unit_index).gradient_shard);
  }
  void EndBackward() override {}
  StreamIndex ReduceStream() const override { return kComputeStream; }
};

}  // namespace

Schedule BuildSingle(const ModelDescription& model, const Policy& policy) {
  return BuildPrograms<SingleBuilder>(model, policy);
}

}  // namespace shardscope::plan
