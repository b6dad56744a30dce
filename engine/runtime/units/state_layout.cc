#include "engine/runtime/units/state_layout.h"

#include <algorithm>
#include <iterator>

#include "engine/plan/state.h"

namespace shardscope::runtime {
namespace {

// Where the state lies does not depend on what steps hold of a segment.
std::vector<plan::Segment> WithoutBytes(std::vector<plan::Segment> segments) {
  for (plan::Segment& segment : segments) {
    segment.activation_bytes = segment.output_bytes = 0;
    segment.norm_bytes = segment.hidden_bytes = 0;
  }
  return segments;
}

// Whether the rank keeps a buffer of that kind of the unit.
bool HasBuffer(const StateLayout& layout, int32_t unit, int rank, plan::BufferKind kind) {
  return layout.Has(rank, unit) &&
         std::ranges::any_of(layout.buffers, [&](const plan::Buffer& buffer) {
           return buffer.unit == unit && buffer.kind == kind;
         });
}

ShardedUnit::Place PlaceOf(const StateLayout& layout, int rank) {
  return {.shard_ranks = layout.shard_ranks(),
          .shard_index = layout.ShardIndexOf(rank),
          .tensor_ranks = layout.mesh.size(plan::MeshDimension::kTensor),
          .tensor_index = layout.mesh.Coordinate(rank, plan::MeshDimension::kTensor)};
}

}  // namespace

bool StateLayout::Has(int rank, int32_t unit) const {
  if (IsEverywhere()) return true;
  if (is_rooted) return rank == 0;
  const int32_t ranks = mesh.size(plan::MeshDimension::kPipeline);
  const int32_t stage = plan::StageOfUnits(segments, units.size())[static_cast<size_t>(unit)];
  return stage % ranks == mesh.Coordinate(rank, plan::MeshDimension::kPipeline);
}

plan::StateTensors StateLayout::StateOf(int32_t unit) const {
  const bool has_any = std::ranges::any_of(buffers, [&](const plan::Buffer& buffer) {
    return buffer.unit == unit &&
           plan::TraitsOf(buffer.kind).kept_as == plan::KeptAs::kOptimizerState;
  });
  return has_any ? optimizer_state : plan::StateTensors();
}

int64_t StateLayout::BytesOf(int rank) const {
  int64_t bytes = 0;
  for (const plan::Buffer& buffer : buffers) bytes += Has(rank, buffer.unit) ? buffer.bytes : 0;
  return bytes;
}

int64_t StateLayout::bytes() const {
  int64_t most = 0;
  for (int rank = 0; rank < mesh.num_ranks(); ++rank) most = std::max(most, BytesOf(rank));
  return most;
}

bool IsOffloaded(const StateLayout& layout) {
  return std::ranges::any_of(layout.buffers, [](const plan::Buffer& buffer) {
    return buffer.kind == plan::BufferKind::kHostParameterShard;
  });
}

StateLayout StateLayoutOf(const plan::Schedule& schedule) {
  StateLayout layout{.mesh = schedule.mesh,
                     .segments = WithoutBytes(schedule.segments),
                     .units = schedule.units,
                     .optimizer_state = schedule.optimizer_state};
  for (const plan::Program& program : schedule.programs) {
    const size_t before = layout.buffers.size();
    std::ranges::copy_if(program.buffers, std::back_inserter(layout.buffers),
                         &plan::Buffer::persistent);
    if (layout.buffers.size() == before) layout.is_rooted = true;
  }
  std::ranges::stable_sort(layout.buffers, {}, &plan::Buffer::unit);
  return layout;
}

StateLayout InitialLayout(const plan::ModelDescription& model, const plan::Policy& policy) {
  StateLayout layout{.mesh = policy.mesh,
                     .segments = WithoutBytes(model.segments),
                     .units = model.units,
                     .optimizer_state = policy.update.state};
  layout.is_rooted = policy.strategy->is_rooted && policy.mesh.num_ranks() > 1;
  for (int32_t place = 0; place < policy.mesh.size(plan::MeshDimension::kPipeline); ++place) {
    std::ranges::move(plan::StateBuffers(model, policy, place), std::back_inserter(layout.buffers));
  }
  std::ranges::stable_sort(layout.buffers, {}, &plan::Buffer::unit);
  return layout;
}

ShardedUnit MakeUnit(const StateLayout& layout, int32_t index, int rank,
                     const StateDTypes& dtypes) {
  const auto has = [&](plan::BufferKind kind) { return HasBuffer(layout, index, rank, kind); };
  return {
      layout.units[static_cast<size_t>(index)],
      PlaceOf(layout, rank),
      {.master = dtypes.master,
       .compute = dtypes.compute,
       .gradient = dtypes.gradient,
       .optimizer_state = layout.Has(rank, index) ? layout.StateOf(index) : plan::StateTensors(),
       .has_parameter_shard =
           has(plan::BufferKind::kParameterShard) || has(plan::BufferKind::kHostParameterShard),
       .has_gradient_shard =
           has(plan::BufferKind::kGradientShard) || has(plan::BufferKind::kHostGradientShard),
       .has_whole_parameters = has(plan::BufferKind::kUnsharded),
       .has_whole_gradient = has(plan::BufferKind::kGradient),
       .is_on_host = has(plan::BufferKind::kHostParameterShard),
       .has_device_shard =
           has(plan::BufferKind::kParameterShard) && has(plan::BufferKind::kHostParameterShard)}};
}

void AnnounceUnit(const StateLayout& layout, int32_t index, int rank,
                  const model::ParameterSource& source) {
  if (!layout.Has(rank, index)) return;
  const ShardedUnit without_memory(
      layout.units[static_cast<size_t>(index)], PlaceOf(layout, rank),
      {.optimizer_state = {}, .has_parameter_shard = false, .has_gradient_shard = false});
  without_memory.Announce(HasBuffer(layout, index, rank, plan::BufferKind::kUnsharded), source);
}

}  // namespace shardscope::runtime
