// FSDP1's waits and free points (PyTorch FullyShardedDataParallel: whole-stream waits, no copies
// around collectives), for FULL_SHARD and SHARD_GRAD_OP.
#pragma once

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

class Fsdp1Builder : public StepBuilder {
 public:
  Fsdp1Builder(const ModelDescription& model, const Policy& policy);

 protected:
  void StartForward() override;
  void PreForward(int32_t unit_index) override;
  void PostForward(int32_t unit_index) override;
  void PreBackward(int32_t unit_index) override;
  void PostBackward(int32_t unit_index) override;
  void EndBackward() override;
  StreamIndex ReduceStream() const override;

 private:
  // Cast where the dtypes differ, all-gather, and compute's wait for the unshard stream.
  void EmitUnshard(int32_t unit_index);

  bool first_gather_ = false;  // of this micro-batch's forward
};

}  // namespace shardscope::plan
