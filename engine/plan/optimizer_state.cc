#include "engine/plan/optimizer_state.h"

namespace shardscope::plan {

StateTensors StateTensorsOf(OptimizerKind optimizer, StateForm form, bool has_momentum) {
  if (optimizer != OptimizerKind::kSgd) return {{"exp_avg", form}, {"exp_avg_sq", form}};
  if (!has_momentum) return {};
  return {{"momentum_buffer", form}};
}

int64_t StateBytes(const Unit& unit, int num_ranks, const StateTensors& tensors, DType master) {
  int64_t bytes = 0;
  for (const StateTensor& tensor : tensors) {
    if (tensor.form == StateForm::kMaster) {
      bytes += PaddedShardElements(unit, num_ranks) * BytesOf(master);
      continue;
    }
    for (const Parameter& parameter : unit.parameters) {
      const int64_t elements = PaddedShardElements({.parameters = {parameter}}, num_ranks);
      bytes += elements + NumStateBlocks(elements) * BytesOf(DType::kFp32);
    }
  }
  return bytes;
}

}  // namespace shardscope::plan
