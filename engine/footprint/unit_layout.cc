#include "engine/footprint/unit_layout.h"

#include <utility>

#include "engine/plan/optimizer_state.h"
#include "trace/base/round_up.h"

namespace shardscope::footprint {
UnitLayout::UnitLayout(const plan::Unit& unit, int num_ranks) : num_ranks_(num_ranks) {
  for (const plan::Parameter& parameter : unit.parameters) {
    ParameterLayout layout;
    layout.parameter = parameter;
    layout.rows = parameter.shape.empty() ? 1 : parameter.shape.front();
    layout.padded_rows = plan::PaddedRows(parameter, num_ranks);
    layout.row_elements = plan::NumElements(parameter.shape) / layout.rows;
    layout.shard_offset = shard_elements_;
    layout.first_block = shard_blocks_;
    shard_elements_ += layout.shard_elements();
    shard_blocks_ += plan::NumStateBlocks(layout.shard_elements());
    parameters_.push_back(std::move(layout));
  }
  plan::Unit trained = plan::TrainedPart(unit);
  if (trained.parameters.size() == unit.parameters.size()) return;
  trained_ = std::make_shared<const UnitLayout>(trained, num_ranks);
}

int64_t UnitLayout::UnshardedOffset(size_t index, int64_t element_bytes) const {
  int64_t offset = 0;
  for (size_t i = 0; i < index; ++i) {
    offset +=
        RoundUp(num_ranks_ * parameters_[i].shard_elements() * element_bytes, int64_t{kAlignment});
  }
  return offset;
}

int64_t UnitLayout::UnshardedBytes(int64_t element_bytes) const {
  return UnshardedOffset(parameters_.size(), element_bytes);
}

int64_t GapBytes(const UnitLayout& layout, const plan::Buffer& buffer) {
  const bool is_unsharded = plan::TraitsOf(buffer.kind).part == plan::UnitPart::kWhole;
  if (!is_unsharded || buffer.slot != plan::kNone) return 0;
  const UnitLayout& part = plan::HoldsTrainedPart(buffer.kind) ? layout.trained() : layout;
  const int64_t elements = part.num_ranks() * part.shard_elements();
  return elements == 0 ? 0 : part.UnshardedBytes(buffer.bytes / elements) - buffer.bytes;
}

}  // namespace shardscope::footprint
