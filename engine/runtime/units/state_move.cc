#include "engine/runtime/units/state_move.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "engine/model/segments.h"
#include "trace/base/check.h"

namespace shardscope::runtime {
namespace {

// All ranks' rows, one after the other; in the host's memory.
at::Tensor Gather(const at::Tensor& slice, const transport::Call& call,
                  transport::Transport* transport) {
  const at::Tensor own = slice.cpu();
  if (call.group->ranks.size() == 1) return own;
  at::Tensor all =
      at::empty({static_cast<int64_t>(call.group->ranks.size()) * own.numel()}, own.options());
  const transport::GatherPiece piece = {static_cast<const std::byte*>(own.const_data_ptr()),
                                        static_cast<std::byte*>(all.mutable_data_ptr()),
                                        own.nbytes()};
  transport->AllGather(call, {&piece, 1});
  return all;
}

}  // namespace

int64_t BytesOfMove(const StateLayout& from, const StateLayout& to, plan::DType master) {
  int64_t bytes = 0;
  for (const StateLayout* layout : {&from, &to}) {
    bytes += layout->bytes();
    for (const plan::Buffer& buffer : layout->buffers) {
      const plan::Unit& unit = layout->units[static_cast<size_t>(buffer.unit)];
      bytes += GapBytes(UnitLayout(unit, layout->shard_ranks()), buffer);
    }
  }
  int64_t largest = 0;
  for (const plan::Unit& unit : from.units) {
    const UnitLayout layout(unit, from.shard_ranks());
    for (const ParameterLayout& parameter : layout.parameters()) {
      largest = std::max(largest, layout.num_ranks() * parameter.shard_elements());
    }
  }
  return bytes + 3 * largest * plan::BytesOf(master);
}

StateMove::StateMove(StateLayout to, int rank, plan::DType master, plan::DType compute)
    : to_(std::move(to)),
      rank_(rank),
      master_(master),
      compute_(compute),
      units_(to_.units.size()) {
  for (size_t unit = 0; unit < to_.units.size(); ++unit) {
    const std::vector<plan::Parameter>& parameters = to_.units[unit].parameters;
    for (size_t index = 0; index < parameters.size(); ++index) {
      places_[parameters[index].name] = {static_cast<int32_t>(unit), index};
    }
  }
}

ShardedUnit& StateMove::UnitAt(int32_t index) {
  std::optional<ShardedUnit>& unit = units_[static_cast<size_t>(index)];
  if (!unit) unit = MakeUnit(to_, index, rank_, master_, compute_);
  return *unit;
}

at::Tensor StateMove::Whole(const StateLayout& before, int32_t unit,
                            const ParameterLayout& parameter, const at::Tensor& slice,
                            transport::Transport* transport) const {
  const std::string what = "state of " + parameter.parameter.name;
  const plan::Group group =
      plan::GroupOf(before.mesh, plan::Only(plan::MeshDimension::kShard), rank_);
  transport::Call call = {
      .rank = rank_, .communicator = transport::kMoveState, .group = &group, .op_name = what};
  at::Tensor whole;
  if (before.Has(rank_, unit)) whole = Gather(slice, call, transport);
  if (before.mesh.size(plan::MeshDimension::kPipeline) == 1) return whole;
  // All ranks together: those that have it already hear it too.
  if (!whole.defined()) {
    whole = at::empty({before.shard_ranks() * parameter.shard_elements()},
                      model::ScalarTypeOf(master_));
  }
  call.group = nullptr;
  while (!before.Has(++call.root, unit)) {
  }
  const transport::BroadcastPiece piece = {static_cast<std::byte*>(whole.mutable_data_ptr()),
                                           whole.nbytes()};
  transport->Broadcast(call, {&piece, 1});
  return whole;
}

void StateMove::Take(const StateLayout& before, int32_t unit, const ShardedUnit& from,
                     transport::Transport* transport) {
  for (size_t index = 0; index < from.layout().parameters().size(); ++index) {
    const ParameterLayout& parameter = from.layout().parameters()[index];
    const auto found = places_.find(parameter.parameter.name);
    SHARDSCOPE_CHECK(found != places_.end());
    const ShardedUnit::Slice slice = from.is_here() ? from.SliceOf(index) : ShardedUnit::Slice();
    const auto whole = [&](const at::Tensor& own) {
      return Whole(before, unit, parameter, own, transport);
    };
    const at::Tensor values = whole(slice.parameters);
    const at::Tensor first_moment = whole(slice.first_moment);
    const at::Tensor second_moment = whole(slice.second_moment);
    ShardedUnit& to = UnitAt(found->second.unit);
    if (to.is_here()) to.Take(found->second.index, values, first_moment, second_moment);
  }
}

std::vector<ShardedUnit> StateMove::Finish(at::Device device) {
  std::vector<ShardedUnit> units;
  for (std::optional<ShardedUnit>& unit : units_) {
    SHARDSCOPE_CHECK(unit.has_value());
    units.push_back(*std::move(unit));
    units.back().MoveTo(device);
  }
  return units;
}

}  // namespace shardscope::runtime
