#include "engine/runtime/units/state_move.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

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

// What all tensor ranks have of a parameter, one after the other, as it is in the whole model.
at::Tensor Joined(const at::Tensor& parts, const plan::Parameter& parameter, int tensor_ranks) {
  at::Tensor whole = at::empty_like(parts);
  const int64_t elements = plan::NumElements(parameter.shape);
  for (int place = 0; place < tensor_ranks; ++place) {
    const at::Tensor part = parts.narrow(0, place * elements, elements);
    for (const plan::TensorRun& run : plan::TensorRuns(parameter, tensor_ranks, place)) {
      whole.narrow(0, run.first_in_whole, run.count).copy_(part.narrow(0, run.first, run.count));
    }
  }
  return whole;
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
  // Beside the whole parameter the parts of it, where ranks share its work, and what is made of
  // blocks.
  const int64_t tensor_ranks = from.mesh.size(plan::MeshDimension::kTensor);
  int64_t wholes = 1 + std::ssize(from.optimizer_state);
  if (tensor_ranks > 1) wholes = (wholes + 1) * tensor_ranks;
  if (std::ranges::any_of(from.optimizer_state, [](const plan::StateTensor& tensor) {
        return tensor.form == plan::StateForm::kBlocks;
      })) {
    ++wholes;
  }
  return bytes + wholes * largest * plan::BytesOf(master);
}

StateMove::StateMove(StateLayout to, int rank, const StateDTypes& dtypes)
    : to_(std::move(to)), rank_(rank), dtypes_(dtypes), units_(to_.units.size()) {
  for (size_t unit = 0; unit < to_.units.size(); ++unit) {
    const std::vector<plan::Parameter>& parameters = to_.units[unit].parameters;
    for (size_t index = 0; index < parameters.size(); ++index) {
      places_[parameters[index].name] = {static_cast<int32_t>(unit), index};
    }
  }
}

ShardedUnit& StateMove::UnitAt(int32_t index) {
  std::optional<ShardedUnit>& unit = units_[static_cast<size_t>(index)];
  if (!unit) unit = MakeUnit(to_, index, rank_, dtypes_);
  return *unit;
}

at::Tensor StateMove::Whole(const StateLayout& before, int32_t unit,
                            const ParameterLayout& parameter, const at::Tensor& slice,
                            transport::Transport* transport) const {
  const std::string what = "state of " + parameter.parameter.name;
  transport::Call call = {.rank = rank_, .communicator = transport::kMoveState, .op_name = what};
  const auto gather = [&](plan::MeshDimension dimension, const at::Tensor& own) {
    const plan::Group group = plan::GroupOf(before.mesh, {"", plan::Only(dimension)}, rank_);
    call.group = &group;
    const at::Tensor all = Gather(own, call, transport);
    call.group = nullptr;
    return all;
  };
  at::Tensor whole;
  if (before.Has(rank_, unit)) {
    const int64_t elements = parameter.rows * parameter.row_elements;
    whole = gather(plan::MeshDimension::kShard, slice).narrow(0, 0, elements);
    if (parameter.parameter.split != plan::TensorSplit::kWhole) {
      whole = Joined(gather(plan::MeshDimension::kTensor, whole), parameter.parameter,
                     before.mesh.size(plan::MeshDimension::kTensor));
    }
  }
  if (before.IsEverywhere()) return whole;
  // All ranks together: those that have it already get it too.
  if (!whole.defined()) {
    const plan::Parameter all =
        plan::WholeOf(parameter.parameter, before.mesh.size(plan::MeshDimension::kTensor));
    whole = at::empty({plan::NumElements(all.shape)}, model::ScalarTypeOf(dtypes_.master));
  }
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
    const auto whole = [&](const at::Tensor& own) {
      return Whole(before, unit, parameter, own, transport);
    };
    const bool is_here = from.is_here();
    const at::Tensor values = whole(is_here ? from.SliceOf(index).parameters : at::Tensor());
    std::vector<at::Tensor> state;
    const size_t num_tensors = parameter.parameter.is_frozen ? 0 : before.StateOf(unit).size();
    for (size_t tensor = 0; tensor < num_tensors; ++tensor) {
      state.push_back(whole(is_here ? from.StateValues(tensor, index) : at::Tensor()));
    }
    ShardedUnit& to = UnitAt(found->second.unit);
    if (to.is_here()) to.Take(found->second.index, values, state);
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
