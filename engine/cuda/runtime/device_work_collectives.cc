// Communication ops of DeviceWork: which memory each collective sends and receives.
#include "engine/cuda/runtime/device_work.h"
#include "trace/base/check.h"

namespace shardscope::cuda {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

transport::Call DeviceWork::CallOf(const OpContext& context, const std::string& name) const {
  return {.rank = context.rank,
          .communicator = context.op().communicator,
          .op_name = name,
          .wire_bytes = context.op().wire_bytes,
          .op = context.index,
          .device_stream = context.device_stream,
          .step = context.step};
}

void DeviceWork::AllGather(const OpContext& context) {
  const plan::Op& op = context.op();
  const runtime::UnitLayout& layout = LayoutOf(op.unit);
  const BufferId target = op.writes.front();
  const runtime::UnitMemory to = UnitMemoryOf(context, target, op.dtype);
  std::vector<transport::GatherPiece> pieces;
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    // In place: the copy-in put the own shard into its slot.
    const int64_t bytes = layout.shard_elements() * to.element_bytes();
    pieces.push_back({to.data + bytes * rank_, to.data, static_cast<size_t>(bytes)});
  } else {
    BufferId from = op.reads.front();
    for (const BufferId id : op.reads) {
      if (context.buffer(id).kind == BufferKind::kCastShard) from = id;
    }
    pieces = runtime::GatherPieces(layout, MemoryOf(context, from), to);
  }
  const std::string name = plan::OpName(*context.schedule, op);
  surroundings_.transport->AllGather(CallOf(context, name), pieces);
}

void DeviceWork::ReduceScatter(const OpContext& context) {
  const plan::Op& op = context.op();
  const runtime::UnitLayout& layout = LayoutOf(op.unit);
  const BufferId source = op.reads.front();
  const runtime::UnitMemory from = UnitMemoryOf(context, source, op.dtype);
  std::byte* to = MemoryOf(context, op.writes.front());
  std::vector<transport::ReducePiece> pieces;
  if (context.buffer(source).kind == BufferKind::kReduceScatterInput) {
    pieces.push_back({from.data, to, static_cast<size_t>(layout.shard_elements())});
  } else {
    pieces = runtime::ReducePieces(layout, from, to);
  }
  const std::string name = plan::OpName(*context.schedule, op);
  surroundings_.transport->ReduceScatter(CallOf(context, name), pieces,
                                         {op.dtype, model::GradientScale(job_->training)});
}

void DeviceWork::AllReduce(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId buffer = op.writes.front();
  const runtime::UnitMemory memory = UnitMemoryOf(context, buffer, op.dtype);
  std::vector<transport::AllReducePiece> pieces;
  double scale = model::GradientScale(job_->training);
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
      pieces = runtime::AllReducePieces(LayoutOf(op.unit), memory);
  }
  const std::string name = plan::OpName(*context.schedule, op);
  surroundings_.transport->AllReduce(CallOf(context, name), pieces, {op.dtype, scale});
}

}  // namespace shardscope::cuda
