// FSDP2's waits, copies and free points (PyTorch fully_shard: events per unit, copy-in and
// copy-out, no host waits), for FULL_SHARD and SHARD_GRAD_OP.
#pragma once

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

class Fsdp2Builder : public StepBuilder {
 public:
  Fsdp2Builder(const ModelDescription& model, const Policy& policy);

 protected:
  void StartForward() override;
  void PreForward(int32_t unit_index) override;
  void PostForward(int32_t unit_index) override;
  void EndForward() override;
  void PreBackward(int32_t unit_index) override;
  void PostBackward(int32_t unit_index) override;
  void EndBackward() override;
  StreamIndex ReduceStream() const override;

 private:
  // An all-gather output that has been copied out but is still held.
  struct HeldOutput {
    int32_t unit = kNone;
    BufferId buffer = kNone;
    OpIndex copy_out = kNone;
  };
  // The reduce-scatter whose input is still held.
  struct HeldInput {
    int32_t unit = kNone;
    BufferId buffer = kNone;
    OpIndex reduce_scatter = kNone;
    OpIndex last = kNone;  // that writes the gradient shard
  };

  HeldOutput EmitGather(int32_t unit_index);  // copy-in and all-gather
  void EmitCopyOut(HeldOutput& gathered);     // compute waits for the all-gather, then copies
  void ReleaseOutput(HeldOutput& held);       // no-op if nothing is held
  void ReleaseInput(OpIndex after);           // the same

  bool first_gather_ = false;   // of this micro-batch's forward
  OpIndex all_gather_ = kNone;  // the last one issued
  HeldOutput held_output_;
  HeldInput held_input_;
};

}  // namespace shardscope::plan
