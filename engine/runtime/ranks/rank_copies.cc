// What the copies of a rank move: casts, slots of collectives, memory of the host, gradients.
#include "engine/runtime/ranks/rank_ops.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::OpKind;

void RankOps::Cast(const OpContext& context) {
  const plan::Op& op = context.op();
  const int64_t elements = LayoutOf(op.unit).shard_elements();
  FlatView(UnitMemoryOf(context, op.writes.front(), job_->model.dtype), 0, elements)
      .copy_(FlatView(UnitMemoryOf(context, op.reads.front(), job_->master), 0, elements));
}

// Between the host's memory and the rank's. On the CPU at the speed of an emulated link: the bytes
// move, and the op ends no earlier than the link would. A GPU has a link, and the copy is only put
// on its stream: both sides lie where that needs no wait of the host.
void RankOps::CopyAcross(const OpContext& context) {
  const plan::Op& op = context.op();
  const int64_t started_ns = MonotonicNs();
  const plan::Buffer& target = context.buffer(op.writes.front());
  int64_t bytes = target.bytes;
  // A copy that stays is renewed: what is not trained has not changed.
  const bool renews = op.kind == OpKind::kCopyToDevice && target.persistent;
  if (renews) {
    const bool is_whole = target.kind == BufferKind::kUnsharded;
    bytes = GradientLayout(op.unit).shard_elements() *
            plan::BytesOf(is_whole ? job_->model.dtype : job_->master);
  }
  if (target.kind == BufferKind::kUnsharded) {
    RenewOwnRows(context);
  } else {
    const auto bytes_at = [&](BufferId id) {
      UnitMemory memory = UnitMemoryOf(context, id, job_->master);
      memory.type = at::kByte;
      return FlatView(memory, 0, bytes);
    };
    bytes_at(op.writes.front()).copy_(bytes_at(op.reads.front()), /*non_blocking=*/true);
  }
  if (!device_.is_cpu()) return;
  std::optional<transport::Link>& link =
      op.kind == OpKind::kCopyToDevice ? host_links_.to_device : host_links_.to_host;
  constexpr int kRank[] = {0};
  if (link) SleepUntilNs(link->Reserve(kRank, started_ns, bytes));
}

// Of whole parameters: what an update has changed. Out of the host's memory a GPU takes it as it
// is, and casts it there: the host would cast what is not updated yet.
void RankOps::RenewOwnRows(const OpContext& context) {
  const plan::Op& op = context.op();
  const ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const std::vector<at::Tensor> slots =
      SlotsOf(GradientLayout(op.unit), layout_.ShardIndexOf(rank_),
              UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
  for (size_t index = 0; index < slots.size(); ++index) {
    slots[index].copy_(unit.SliceOf(index).parameters.to(device_, /*non_blocking=*/true));
  }
}

// Own shard into its slot of an all-gather output or of whole parameters (cast on the way), or the
// gradient into a rank-major reduce-scatter input. The forms of memory are those of sharded_unit.h.
void RankOps::CopyIn(const OpContext& context) {
  const plan::Op& op = context.op();
  ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const BufferId target = op.writes.front();
  const BufferId waiting = Find(context, op.reads, BufferKind::kPostForwardShard);
  if (waiting != plan::kNone || context.buffer(target).kind == BufferKind::kPostForwardShard) {
    return CopyPostForwardShard(context);
  }
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    const UnitMemory memory = UnitMemoryOf(context, target, job_->model.dtype);
    const int64_t elements = unit.layout().shard_elements();
    FlatView(memory, elements * layout_.ShardIndexOf(rank_) * memory.element_bytes(), elements)
        .copy_(FlatView(UnitMemoryOf(context, op.reads.front(), job_->master), 0, elements));
    return;
  }
  if (context.buffer(target).kind == BufferKind::kUnsharded) return RenewOwnRows(context);
  SHARDSCOPE_CHECK(context.buffer(target).kind == BufferKind::kReduceScatterInput);
  const BufferId source = op.reads.front();
  const UnitMemory input = UnitMemoryOf(context, target, job_->reduce);
  if (context.buffer(source).kind == BufferKind::kGradientShard) {
    FlatView(input, 0, GradientLayout(op.unit).shard_elements()).copy_(unit.gradient());
    return;
  }
  PackRankMajor(GradientLayout(op.unit), GradientMemory(context, source), input);
}

// Between two gathers of a unit: several ranks' shards, one after the other, out of its parameters
// and into their slot of the next all-gather's output, which fewer ranks fill.
void RankOps::CopyPostForwardShard(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = LayoutOf(op.unit);
  const UnitMemory from = UnitMemoryOf(context, op.reads.front(), job_->model.dtype);
  const UnitMemory to = UnitMemoryOf(context, op.writes.front(), job_->model.dtype);
  const bool is_whole = context.buffer(op.reads.front()).kind == BufferKind::kUnsharded;
  const int64_t part_bytes = At(is_whole ? op.writes.front() : op.reads.front()).bytes;
  const int64_t whole_bytes = layout.num_ranks() * layout.shard_elements() * to.element_bytes();
  const int64_t place = layout_.ShardIndexOf(rank_) % (whole_bytes / part_bytes);
  if (is_whole) {
    const int64_t ranks = part_bytes / (layout.shard_elements() * to.element_bytes());
    return PackRanks(layout, from, place * ranks, ranks, to);
  }
  const int64_t elements = part_bytes / to.element_bytes();
  FlatView(to, place * part_bytes, elements).copy_(FlatView(from, 0, elements));
}

void RankOps::CopyOut(const OpContext& context) {
  const plan::Op& op = context.op();
  UnpackRankMajor(LayoutOf(op.unit), UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                  UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
}

// The gradient into the one that is kept: overwrites it, or adds where the op reads it too.
void RankOps::Accumulate(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId source = op.reads.front();
  const BufferId target = op.writes.front();
  const bool adds = op.reads.size() > 1;
  const BufferKind kind = context.buffer(target).kind;
  if (kind == BufferKind::kGradient || kind == BufferKind::kAccumulatedGradient) {
    Take(GradientLayout(op.unit), GradientMemory(context, source), adds,
         GradientMemory(context, target));
    return;
  }
  const UnitLayout& layout = GradientLayout(op.unit);
  if (!context.buffer(target).persistent) {  // a sum that goes on from there
    const bool is_shard = kind == BufferKind::kGradientShard;
    const UnitMemory sum = UnitMemoryOf(context, target, is_shard ? job_->gradient : job_->reduce);
    return TakeReduced(layout, UnitMemoryOf(context, source, job_->reduce), /*is_packed=*/true,
                       adds, FlatView(sum, 0, layout.shard_elements()));
  }
  // no_shard without another reduce dtype: the gradient itself was all-reduced.
  const bool is_packed = context.buffer(source).kind != BufferKind::kGradient;
  ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  TakeReduced(layout, UnitMemoryOf(context, source, is_packed ? job_->reduce : job_->model.dtype),
              is_packed, adds, unit.gradient());
  // As a rule the reduction makes a mean of the sum.
  if (!reduces_ && op.micro_batch + 1 == job_->training.micro_batches) {
    unit.ScaleGradient(GradientScale());
  }
}

}  // namespace shardscope::runtime
