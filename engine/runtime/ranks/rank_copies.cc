// Copy ops of RankBodies: casts, copies into and out of communication buffers, accumulation. The
// forms of memory are those of unit_layout.h.
#include "engine/runtime/ranks/rank_bodies.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

void RankBodies::Cast(const OpContext& context) {
  ShardedUnit& unit = units_[static_cast<size_t>(context.op().unit)];
  FlatView(UnitMemoryOf(context, context.op().writes.front(), job_->model.dtype), 0,
           unit.layout().shard_elements())
      .copy_(unit.parameters());
}

// Own shard into its slot of an all-gather output (cast on the way), or the gradient into a
// rank-major reduce-scatter input.
void RankBodies::CopyIn(const OpContext& context) {
  const plan::Op& op = context.op();
  ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const BufferId target = op.writes.front();
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    const UnitMemory memory = UnitMemoryOf(context, target, job_->model.dtype);
    const int64_t elements = unit.layout().shard_elements();
    FlatView(memory, elements * rank_ * memory.element_bytes(), elements).copy_(unit.parameters());
    return;
  }
  SHARDSCOPE_CHECK(context.buffer(target).kind == BufferKind::kReduceScatterInput);
  PackRankMajor(unit.layout(), UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                UnitMemoryOf(context, target, job_->reduce));
}

void RankBodies::CopyOut(const OpContext& context) {
  const plan::Op& op = context.op();
  UnpackRankMajor(units_[static_cast<size_t>(op.unit)].layout(),
                  UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                  UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
}

// The reduced gradient into the gradient shard: overwrites in the first micro-batch, adds after.
void RankBodies::Accumulate(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId source = op.reads.front();
  // no_shard without another reduce dtype: the gradient itself was all-reduced.
  const bool is_packed = context.buffer(source).kind != BufferKind::kGradient;
  TakeReduced(UnitMemoryOf(context, source, is_packed ? job_->reduce : job_->model.dtype),
              is_packed, Find(context, op.reads, BufferKind::kGradientShard) != plan::kNone,
              &units_[static_cast<size_t>(op.unit)]);
}

}  // namespace shardscope::runtime
