// What the collectives of a rank send and receive, and between whom.
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "engine/runtime/ranks/rank_ops.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferForm;
using plan::BufferId;
using plan::BufferKind;
using plan::OpKind;
using plan::SummedPart;

// Of several dimensions it is the slowest one's.
transport::CallLink RankOps::LinkOf(const plan::Schedule& schedule,
                                    plan::CommunicatorIndex communicator) const {
  const plan::MeshDimensions dimensions =
      schedule.communicators[static_cast<size_t>(communicator)].dimensions;
  transport::CallLink slowest;
  for (size_t at = 0; at < links_.size(); ++at) {
    const auto dimension = static_cast<plan::MeshDimension>(at);
    const config::DimensionLink& link = links_[at];
    const bool is_along =
        (dimensions & plan::Only(dimension)) != 0 && layout_.mesh.size(dimension) > 1;
    if (!is_along || link == config::DimensionLink()) continue;
    const double rate = link.bytes_per_second.value_or(0);
    if (slowest.wire > 0 && rate >= slowest.bytes_per_second) continue;
    slowest = {static_cast<int>(at) + 1, rate, link.latency_ns.value_or(-1)};
  }
  return slowest;
}

// `name` is the op's, for errors; it outlives the call.
transport::Call RankOps::CallOf(const OpContext& context, const std::string& name) const {
  return {.rank = context.rank,
          .communicator = context.op().communicator,
          .group = &groups_[static_cast<size_t>(context.op().communicator)],
          .root = context.op().root,
          .op_name = name,
          .wire_bytes = context.op().wire_bytes,
          .link = LinkOf(*context.schedule, context.op().communicator),
          .op = context.index,
          .device_stream = context.device_stream,
          .step = context.step};
}

void RankOps::Exchange(const OpContext& context) {
  const plan::Op& op = context.op();
  const bool sends = op.kind == OpKind::kSend;
  const BufferId id = sends ? op.reads.front() : op.writes.front();
  const at::Tensor tensor = RowsIn(context, id);
  SHARDSCOPE_CHECK(tensor.is_contiguous() &&
                   static_cast<int64_t>(tensor.nbytes()) == op.payload_bytes);
  const transport::BroadcastPiece piece = {static_cast<std::byte*>(tensor.mutable_data_ptr()),
                                           tensor.nbytes()};
  const plan::Meeting meeting = plan::MeetingOf(*context.schedule, rank_, op);
  const plan::Group& pair = pairs_.at(meeting);
  const std::string name = plan::ExchangeName(*context.schedule, op);
  Communicate(context, [&](const transport::Call& of_collective) {
    transport::Call call = of_collective;
    call.communicator = transport::PairCommunicator(op.communicator, meeting.from);
    call.group = &pair;
    call.op_name = name;
    call.root = sends ? pair.place : 1 - pair.place;
    // What a stage waits before there is anything to receive is no communication.
    if (!sends) call.all_arrived_ns = context.started_ns;
    rank_context_.transport->Broadcast(call, {&piece, 1});
  });
}

at::Tensor RankOps::RowsIn(const OpContext& context, BufferId id) {
  switch (plan::TraitsOf(context.buffer(id).kind).form) {
    case BufferForm::kSaved:
      return At(id).saved.output;
    case BufferForm::kSavedNorm:
      return At(id).saved.tensors[1];
    case BufferForm::kRows: {
      const UnitMemory memory = UnitMemoryOf(context, id, job_->model.dtype);
      const int64_t elements = context.buffer(id).bytes / memory.element_bytes();
      return FlatView(memory, 0, elements).view({-1, job_->model.dim});
    }
    case BufferForm::kTensor:
      return At(id).tensor;
    case BufferForm::kBlock:
      break;
  }
  SHARDSCOPE_CHECK(false);
  return {};
}

void RankOps::GatherSequence(const OpContext& context) {
  const BufferId source = context.op().reads.front();
  const BufferId target = context.op().writes.front();
  const at::Tensor from = RowsIn(context, source);
  if (target != source) {
    At(target).tensor = at::empty({from.size(0) * part_.count, from.size(1)}, from.options());
  }
  const at::Tensor all = RowsIn(context, target);
  auto* const receive = static_cast<std::byte*>(all.mutable_data_ptr());
  const auto* const send = static_cast<const std::byte*>(from.const_data_ptr());
  const auto samples = static_cast<size_t>(job_->training.batch);
  const auto ranks = static_cast<size_t>(part_.count);
  const size_t bytes = all.nbytes() / samples / ranks;
  std::vector<transport::GatherPiece> pieces;
  for (size_t sample = 0; sample < samples; ++sample) {
    // In place, the rank's part lies where it belongs.
    const size_t own =
        target == source ? sample * ranks + static_cast<size_t>(part_.index) : sample;
    pieces.push_back({send + own * bytes, receive + sample * ranks * bytes, bytes});
  }
  Communicate(context, [&](const auto& call) { rank_context_.transport->AllGather(call, pieces); });
}

void RankOps::ScatterSequence(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId target = op.writes.front();
  const at::Tensor from = RowsIn(context, op.reads.front());
  if (!RowsIn(context, target).defined()) {
    At(target).tensor = at::empty({from.size(0) / part_.count, from.size(1)}, from.options());
  }
  const at::Tensor to = RowsIn(context, target);
  const auto* const send = static_cast<const std::byte*>(from.const_data_ptr());
  auto* const receive = static_cast<std::byte*>(to.mutable_data_ptr());
  const auto samples = static_cast<size_t>(job_->training.batch);
  const size_t bytes = to.nbytes() / samples;
  std::vector<transport::ReducePiece> pieces;
  for (size_t sample = 0; sample < samples; ++sample) {
    pieces.push_back({send + sample * static_cast<size_t>(part_.count) * bytes,
                      receive + sample * bytes, bytes / to.element_size()});
  }
  Communicate(context, [&](const auto& call) {
    rank_context_.transport->ReduceScatter(call, pieces, {op.dtype, 1});
  });
}

void RankOps::AllGather(const OpContext& context) {
  const plan::Op& op = context.op();
  if (op.unit == plan::kNone) return GatherSequence(context);
  const UnitLayout& layout = LayoutOf(op.unit);
  const BufferId target = op.writes.front();
  const UnitMemory to = UnitMemoryOf(context, target, op.dtype);
  std::vector<transport::GatherPiece> pieces;
  if (op.reads.front() == target && context.buffer(target).kind == BufferKind::kUnsharded) {
    // After an update, of what it has changed.
    pieces = GatherPiecesInPlace(layout.trained(), layout_.ShardIndexOf(rank_), to);
  } else if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    // In place: the copy-in put the own shard into its slot.
    const plan::Group& group = groups_[static_cast<size_t>(op.communicator)];
    const int64_t bytes = op.payload_bytes / std::ssize(group.ranks);
    pieces.push_back({to.data + bytes * group.place, to.data, static_cast<size_t>(bytes)});
  } else {
    const BufferId cast = Find(context, op.reads, BufferKind::kCastShard);
    pieces =
        GatherPieces(layout, MemoryOf(context, cast == plan::kNone ? op.reads.front() : cast), to);
  }
  Communicate(context, [&](const auto& call) { rank_context_.transport->AllGather(call, pieces); });
}

void RankOps::ReduceScatter(const OpContext& context) {
  const plan::Op& op = context.op();
  if (op.unit == plan::kNone) return ScatterSequence(context);
  const UnitLayout& layout = GradientLayout(op.unit);
  const BufferId source = op.reads.front();
  const UnitMemory from = UnitMemoryOf(context, source, op.dtype);
  std::byte* to = MemoryOf(context, op.writes.front());
  std::vector<transport::ReducePiece> pieces;
  if (op.writes.front() == source) {
    pieces = ReducePiecesInPlace(layout, layout_.ShardIndexOf(rank_), from);
  } else if (context.buffer(source).kind == BufferKind::kReduceScatterInput) {
    pieces.push_back({from.data, to, static_cast<size_t>(layout.shard_elements())});
  } else {
    pieces = ReducePieces(layout, from, to);
  }
  Communicate(context, [&](const auto& call) {
    rank_context_.transport->ReduceScatter(call, pieces, {op.dtype, GradientScale()});
  });
}

void RankOps::AllReduce(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId buffer = op.writes.front();
  if (op.unit == plan::kNone && op.segment != plan::kNone) {
    const at::Tensor part = RowsIn(context, buffer);
    return AllReduce(
        context,
        {{static_cast<std::byte*>(part.mutable_data_ptr()), static_cast<size_t>(part.numel())}}, 1);
  }
  const UnitMemory memory = UnitMemoryOf(context, buffer, op.dtype);
  std::vector<transport::AllReducePiece> pieces;
  double scale = GradientScale();
  const BufferKind kind = context.buffer(buffer).kind;
  switch (plan::TraitsOf(kind).summed) {
    case SummedPart::kNone:
      SHARDSCOPE_CHECK(false);
      break;
    case SummedPart::kScalar:
      pieces.push_back({memory.data, 1});
      scale = 1;
      break;
    case SummedPart::kShard:
      if (context.schedule->IsOfTensorRanks(op.communicator)) {
        return AllReduce(context, WholeParameterPieces(GradientLayout(op.unit), memory), 1);
      }
      if (scatters_) scale = 1;  // replicas' shards, which the reduce-scatter has scaled
      [[fallthrough]];
    case SummedPart::kChunk:
      pieces.push_back(
          {memory.data, static_cast<size_t>(GradientLayout(op.unit).shard_elements())});
      break;
    case SummedPart::kWhole:
      pieces = AllReducePieces(GradientLayout(op.unit), memory);
  }
  AllReduce(context, pieces, scale);
}

void RankOps::AllReduce(const OpContext& context,
                        const std::vector<transport::AllReducePiece>& pieces, double scale) {
  Communicate(context, [&](const auto& call) {
    rank_context_.transport->AllReduce(call, pieces, {context.op().dtype, scale});
  });
}

// One piece a parameter: the root may have them packed.
void RankOps::Broadcast(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId id = op.reads.empty() ? op.writes.front() : op.reads.front();
  const UnitLayout& layout = LayoutOf(op.unit);
  std::vector<transport::BroadcastPiece> pieces;
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const at::Tensor view = ParameterView(layout, index, UnitMemoryOf(context, id, op.dtype),
                                          context.buffer(id).kind != BufferKind::kUnsharded);
    pieces.push_back({static_cast<std::byte*>(view.mutable_data_ptr()), view.nbytes()});
  }
  Communicate(context, [&](const auto& call) { rank_context_.transport->Broadcast(call, pieces); });
}

void RankOps::Scatter(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId batch = op.writes.front();
  const auto bytes = static_cast<size_t>(At(batch).bytes);
  const int place = groups_[static_cast<size_t>(op.communicator)].place;
  std::byte* const from = op.reads.empty() ? nullptr : BlockOf(op.reads.front());
  const transport::BroadcastPiece piece =
      from == nullptr
          ? transport::BroadcastPiece{.data = BlockOf(batch), .bytes = bytes}
          : transport::BroadcastPiece{.data = from, .bytes = bytes, .slot_bytes = bytes};
  Communicate(context, [&](const auto& call) {
    rank_context_.transport->Broadcast(call, {&piece, 1});
  });
  if (from != nullptr) {
    const auto bytes_at = [&](std::byte* data) {
      return FlatView({data, at::kByte, device_}, 0, static_cast<int64_t>(bytes));
    };
    bytes_at(BlockOf(batch)).copy_(bytes_at(from + static_cast<size_t>(place) * bytes));
  }
  At(batch).tokens = TokensIn(batch);
  KeepBatch(context, SamplesOf(context, place));
}

void RankOps::Gather(const OpContext& context) {
  const plan::Op& op = context.op();
  const at::Tensor output = RowsIn(context, op.reads.front());
  const transport::GatherPiece piece = {static_cast<const std::byte*>(output.const_data_ptr()),
                                        op.writes.empty() ? nullptr : BlockOf(op.writes.front()),
                                        output.nbytes()};
  Communicate(context, [&](const auto& call) {
    rank_context_.transport->AllGather(call, {&piece, 1});
  });
}

}  // namespace shardscope::runtime
