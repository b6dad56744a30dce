// What the stages of ZeRO share (DeepSpeed, stage_1_and_2.py): ranks have whole parameters, update
// their slice of them, and gather the others' after that. Stage 1 keeps whole gradients, and
// reduces them with the last micro-batch; stage 2 keeps its slice only, and reduces them with each.
// Stage 3 (zero3.cc) does as stage 2 with what it never splits.
#pragma once

#include "engine/plan/builders/whole_parameters.h"

namespace shardscope::plan {

class ZeroBuilder : public WholeParametersBuilder {
 public:
  ZeroBuilder(const ModelDescription& model, const Policy& policy);

 protected:
  static constexpr StreamIndex kAllGatherStream = 3;

  void PreBackward(int32_t unit_index) override;
  void PostBackward(int32_t unit_index) override;
  void EndBackward() override;
  void PostOptimizer(int32_t unit_index, OpIndex optimizer) override;
  void EndStep() override;
  StreamIndex ReduceStream() const override { return kReductionStream; }

  // Reduces `gradient` into the rank's slice, and frees it if it is of this micro-batch only.
  void Reduce(int32_t unit_index, BufferId gradient);
  // Compute goes on after all that is being reduced, and freed after that. `unit_index`: whose wait
  // it is; kNone: the step's.
  void WaitForReductions(int32_t unit_index);
  // Compute goes on after `op`, which is one of the unit's.
  void EmitWait(int32_t unit_index, OpIndex op);

 private:
  bool keeps_gradients() const { return !policy().strategy->shards_gradients; }

  bool has_reduced_ = false;  // in this backward
};

}  // namespace shardscope::plan
