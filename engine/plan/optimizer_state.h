// What an optimizer keeps of every parameter from step to step: a list of tensors, each as long as
// the parameter, in the order in which they lie in a unit's buffer `optimizer_state`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/model_description.h"
#include "engine/plan/op.h"

namespace shardscope::plan {

using words::OptimizerKind;
using words::StateForm;

struct StateTensor {
  std::string name;  // torch.optim's: "exp_avg"
  StateForm form = StateForm::kMaster;
  bool operator==(const StateTensor&) const = default;
};
using StateTensors = std::vector<StateTensor>;

// Adam and AdamW: both moments. SGD: its momentum, if it has any.
StateTensors StateTensorsOf(OptimizerKind optimizer, StateForm form, bool has_momentum);
// What a Schedule has whose text says nothing else.
inline StateTensors DefaultStateTensors() {
  return StateTensorsOf(OptimizerKind::kAdamw, StateForm::kMaster, false);
}

// StateForm::kBlocks: so many elements of one parameter's shard share an fp32 scale, and have a
// byte each (Dettmers et al., arXiv 2110.02861, with smaller blocks).
inline constexpr int64_t kStateBlockElements = 256;
constexpr int64_t NumStateBlocks(int64_t elements) {
  return (elements + kStateBlockElements - 1) / kStateBlockElements;
}

// On one of `num_ranks` that share the unit.
int64_t StateBytes(const Unit& unit, int num_ranks, const StateTensors& tensors, DType master);

}  // namespace shardscope::plan
