// NO_SHARD: every rank holds all parameters and all-reduces the gradients of each unit, as DDP with
// one bucket a unit.
#pragma once

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

class NoShardBuilder : public StepBuilder {
 public:
  NoShardBuilder(const ModelDescription& model, const Policy& policy);

 protected:
  void PreForward(int32_t unit_index) override;
  void PostForward(int32_t unit_index) override;
  void PreBackward(int32_t unit_index) override;
  void PostBackward(int32_t unit_index) override;
  void EndBackward() override;
  StreamIndex ReduceStream() const override;
};

}  // namespace shardscope::plan
