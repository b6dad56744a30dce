// The part of a step that all strategies share whose ranks hold all parameters: compute reads them
// in place, or a cast of them.
#pragma once

#include <vector>

#include "engine/plan/builders/step.h"

namespace shardscope::plan {

// Where gradients are reduced, the stream of that comes third.
inline constexpr StreamIndex kReductionStream = 2;

class WholeParametersBuilder : public StepBuilder {
 protected:
  using StepBuilder::StepBuilder;

  void PreForward(int32_t unit_index) override;
  void PostForward(int32_t) override {}
  void PreBackward(int32_t) override {}

  // After the unit's backward: frees the cast, if there is one.
  void ReleaseParameters(int32_t unit_index);

  // For gradients that stay where they are until the end of the step: backward writes the first
  // micro-batch's straight into `kept`, and what the others leave is added to it.
  void StartGradient(int32_t unit_index, BufferId kept);
  void EndGradient(int32_t unit_index, BufferId kept);
};

}  // namespace shardscope::plan
