// Communication ops of RankOps: which memory each collective sends and receives.
#include "engine/runtime/ranks/rank_ops.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

// `name` is the op's, for errors; it outlives the call.
transport::Call RankOps::CallOf(const OpContext& context, const std::string& name) const {
  return {.rank = context.rank,
          .communicator = context.op().communicator,
          .op_name = name,
          .wire_bytes = context.op().wire_bytes,
          .op = context.index,
          .device_stream = context.device_stream,
          .step = context.step};
}

void RankOps::AllGather(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = LayoutOf(op.unit);
  const BufferId target = op.writes.front();
  const UnitMemory to = UnitMemoryOf(context, target, op.dtype);
  std::vector<transport::GatherPiece> pieces;
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    // In place: the copy-in put the own shard into its slot.
    const int64_t bytes = layout.shard_elements() * to.element_bytes();
    pieces.push_back({to.data + bytes * rank_, to.data, static_cast<size_t>(bytes)});
  } else {
    const BufferId cast = Find(context, op.reads, BufferKind::kCastShard);
    pieces =
        GatherPieces(layout, MemoryOf(context, cast == plan::kNone ? op.reads.front() : cast), to);
  }
  Communicate(context, [&](const auto& call) { rank_context_.transport->AllGather(call, pieces); });
}

void RankOps::ReduceScatter(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = LayoutOf(op.unit);
  const BufferId source = op.reads.front();
  const UnitMemory from = UnitMemoryOf(context, source, op.dtype);
  std::byte* to = MemoryOf(context, op.writes.front());
  std::vector<transport::ReducePiece> pieces;
  if (context.buffer(source).kind == BufferKind::kReduceScatterInput) {
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
  const UnitMemory memory = UnitMemoryOf(context, buffer, op.dtype);
  std::vector<transport::AllReducePiece> pieces;
  double scale = GradientScale();
  switch (context.buffer(buffer).kind) {
    case BufferKind::kNorm:
      pieces.push_back({memory.data, 1});
      scale = 1;
      break;
    case BufferKind::kReduceScatterInput:
      pieces.push_back({memory.data, static_cast<size_t>(LayoutOf(op.unit).shard_elements())});
      break;
    default:
      SHARDSCOPE_CHECK(context.buffer(buffer).kind == BufferKind::kGradient);
      pieces = AllReducePieces(LayoutOf(op.unit), memory);
  }
  Communicate(context, [&](const auto& call) {
    rank_context_.transport->AllReduce(call, pieces, {op.dtype, scale});
  });
}

}  // namespace shardscope::runtime
