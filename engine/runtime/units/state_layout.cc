#include "engine/runtime/units/state_layout.h"

#include <algorithm>
#include <iterator>

#include "engine/plan/state.h"

namespace shardscope::runtime {

int64_t StateLayout::bytes() const {
  int64_t bytes = 0;
  for (const plan::Buffer& buffer : buffers) bytes += buffer.bytes;
  return bytes;
}

StateLayout StateLayoutOf(const plan::Schedule& schedule) {
  StateLayout layout{.mesh = schedule.mesh, .segments = schedule.segments, .units = schedule.units};
  std::ranges::copy_if(schedule.programs.front().buffers, std::back_inserter(layout.buffers),
                       &plan::Buffer::persistent);
  return layout;
}

StateLayout InitialLayout(const plan::ModelDescription& model, const plan::Policy& policy) {
  return {.mesh = policy.mesh,
          .segments = model.segments,
          .units = model.units,
          .buffers = plan::StateBuffers(model, policy)};
}

ShardedUnit MakeUnit(const StateLayout& layout, int32_t index, int rank, plan::DType master,
                     plan::DType compute) {
  const auto has = [&](plan::BufferKind kind) {
    return std::ranges::any_of(layout.buffers, [&](const plan::Buffer& buffer) {
      return buffer.unit == index && buffer.kind == kind;
    });
  };
  return {layout.units[static_cast<size_t>(index)],
          {.shard_ranks = layout.shard_ranks(), .shard_index = layout.ShardIndexOf(rank)},
          {.master = master,
           .compute = compute,
           .has_parameter_shard = has(plan::BufferKind::kParameterShard),
           .has_gradient_shard = has(plan::BufferKind::kGradientShard),
           .has_whole_parameters = has(plan::BufferKind::kUnsharded),
           .has_whole_gradient = has(plan::BufferKind::kGradient)}};
}

}  // namespace shardscope::runtime
