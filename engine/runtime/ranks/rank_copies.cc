// Copy ops of RankBodies: casts, copies into and out of communication buffers, accumulation. The
// forms of memory are those of unit_layout.h.
#include <ATen/ops/from_blob.h>

#include "engine/runtime/ranks/rank_bodies.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

namespace {

at::Tensor Flat(std::byte* memory, int64_t elements, at::ScalarType type) {
  return at::from_blob(memory, {elements}, type);
}

}  // namespace

void RankBodies::Cast(const OpContext& context) {
  ShardedUnit& unit = units_[static_cast<size_t>(context.op().unit)];
  std::byte* to = At(context.op().writes.front()).memory;
  Flat(to, unit.layout().shard_elements(), model::ScalarTypeOf(job_->model.dtype))
      .copy_(unit.parameters());
}

// Own shard into its slot of an all-gather output (cast on the way), or the gradient into a
// rank-major reduce-scatter input.
void RankBodies::CopyIn(const OpContext& context) {
  const plan::Op& op = context.op();
  ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const UnitLayout& layout = unit.layout();
  const int64_t shard_elements = layout.shard_elements();
  const at::ScalarType model_type = model::ScalarTypeOf(job_->model.dtype);
  const BufferId target = op.writes.front();
  std::byte* to = At(target).memory;
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    const int64_t slot = shard_elements * rank_ * plan::BytesOf(job_->model.dtype);
    Flat(to + slot, shard_elements, model_type).copy_(unit.parameters());
    return;
  }
  SHARDSCOPE_CHECK(context.buffer(target).kind == BufferKind::kReduceScatterInput);
  std::byte* from = At(op.reads.front()).memory;
  const int64_t from_bytes = plan::BytesOf(job_->model.dtype);
  const at::Tensor rank_major =
      Flat(to, layout.num_ranks() * shard_elements, model::ScalarTypeOf(job_->reduce))
          .view({layout.num_ranks(), shard_elements});
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    const int64_t elements = parameter.shard_elements();
    const at::Tensor gradient = Flat(from + layout.UnshardedOffset(index, from_bytes),
                                     layout.num_ranks() * elements, model_type)
                                    .view({layout.num_ranks(), elements});
    rank_major.narrow(1, parameter.shard_offset, elements).copy_(gradient);
  }
}

void RankBodies::CopyOut(const OpContext& context) {
  const plan::Op& op = context.op();
  const UnitLayout& layout = units_[static_cast<size_t>(op.unit)].layout();
  const at::ScalarType type = model::ScalarTypeOf(job_->model.dtype);
  std::byte* to = At(op.writes.front()).memory;
  const at::Tensor rank_major =
      Flat(At(op.reads.front()).memory, layout.num_ranks() * layout.shard_elements(), type)
          .view({layout.num_ranks(), layout.shard_elements()});
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    const int64_t elements = parameter.shard_elements();
    Flat(to + layout.UnshardedOffset(index, plan::BytesOf(job_->model.dtype)),
         layout.num_ranks() * elements, type)
        .view({layout.num_ranks(), elements})
        .copy_(rank_major.narrow(1, parameter.shard_offset, elements));
  }
}

// The reduced gradient into the gradient shard: overwrites in the first micro-batch, adds after.
void RankBodies::Accumulate(const OpContext& context) {
  const plan::Op& op = context.op();
  ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const UnitLayout& layout = unit.layout();
  const bool adds = Find(context, op.reads, BufferKind::kGradientShard) != plan::kNone;
  const auto put = [&](at::Tensor shard, const at::Tensor& reduced) {
    if (adds) {
      shard.add_(reduced);
    } else {
      shard.copy_(reduced);
    }
  };
  const BufferId source = op.reads.front();
  std::byte* from = At(source).memory;
  if (context.buffer(source).kind != BufferKind::kGradient) {
    put(unit.gradient(), Flat(from, layout.shard_elements(), model::ScalarTypeOf(job_->reduce)));
    return;
  }
  // no_shard without another reduce dtype: the gradient itself was all-reduced.
  for (size_t index = 0; index < layout.parameters().size(); ++index) {
    const ParameterLayout& parameter = layout.parameters()[index];
    const int64_t offset = layout.UnshardedOffset(index, plan::BytesOf(job_->model.dtype));
    put(unit.gradient().narrow(0, parameter.shard_offset, parameter.shard_elements()),
        Flat(from + offset, parameter.shard_elements(), model::ScalarTypeOf(job_->model.dtype)));
  }
}

}  // namespace shardscope::runtime
