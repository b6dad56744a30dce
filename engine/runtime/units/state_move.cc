#include "engine/runtime/units/state_move.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

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

void StateMove::Take(const ShardedUnit& from, const plan::Group& group,
                     transport::Transport* transport) {
  for (size_t index = 0; index < from.layout().parameters().size(); ++index) {
    const std::string& name = from.layout().parameters()[index].parameter.name;
    const auto found = places_.find(name);
    SHARDSCOPE_CHECK(found != places_.end());
    const std::string what = "state of " + name;
    const auto gather = [&](const at::Tensor& slice) {
      return Gather(
          slice,
          {.rank = rank_, .communicator = transport::kMoveState, .group = &group, .op_name = what},
          transport);
    };
    const ShardedUnit::Slice slice = from.SliceOf(index);
    UnitAt(found->second.unit)
        .Take(found->second.index, gather(slice.parameters), gather(slice.first_moment),
              gather(slice.second_moment));
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
