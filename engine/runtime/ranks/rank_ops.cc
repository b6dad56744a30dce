#include "engine/runtime/ranks/rank_ops.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <stdexcept>
#include <utility>

#include "engine/executor/execution_sink.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::OpKind;

namespace {

// Which of its unit's parameters each segment uses.
std::vector<std::vector<size_t>> MapParameters(const Job& job) {
  std::vector<std::vector<size_t>> map;
  for (int64_t segment = 0; segment < model::NumSegments(job.model); ++segment) {
    const int32_t unit = job.description.segments[static_cast<size_t>(segment)].unit;
    const auto& in_unit = job.description.units[static_cast<size_t>(unit)].parameters;
    std::vector<size_t> indices;
    for (const plan::Parameter& parameter : model::ParametersOf(job.model, segment)) {
      const auto found = std::find(in_unit.begin(), in_unit.end(), parameter);
      SHARDSCOPE_CHECK(found != in_unit.end());
      indices.push_back(static_cast<size_t>(found - in_unit.begin()));
    }
    map.push_back(std::move(indices));
  }
  return map;
}

}  // namespace

RankOps::RankOps(int rank, at::Device device, const RankContext& rank_context,
                 model::Sampler sampler)
    : rank_(rank),
      device_(device),
      rank_context_(rank_context),
      job_(rank_context.job),
      sampler_(std::move(sampler)),
      segment_parameters_(MapParameters(*rank_context.job)) {}

void RankOps::SetSchedule(const plan::Schedule& schedule) {
  for (const Bound& bound : bound_) SHARDSCOPE_CHECK(bound.bytes == 0);
  bound_.clear();
  bound_.resize(schedule.ProgramOf(rank_).buffers.size());
  OnSchedule(schedule);
}

void RankOps::BeginStep(double learning_rate) {
  learning_rate_ = learning_rate;
  outcome_ = StepOutcome();
}

int64_t RankOps::Allocate(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  Bound& bound = At(id);
  if (IsBlock(buffer.kind)) {
    const int64_t gap_bytes = GapOf(buffer);
    TakeBlock(id, buffer.bytes + gap_bytes);
    bound.gap_bytes = gap_bytes;
    ReportGap(context, id, gap_bytes);
  }
  bound.bytes = buffer.bytes;
  CountMemory(plan::MemoryCategoryOf(buffer.kind), bound.bytes);
  if (buffer.kind == BufferKind::kGradient) {
    ZeroPadding(LayoutOf(buffer.unit), UnitMemoryOf(context, id, job_->model.dtype));
  }
  return bound.bytes;
}

int64_t RankOps::Free(const OpContext& context, BufferId id) {
  Bound& bound = At(id);
  const int64_t bytes = bound.bytes;
  if (IsBlock(context.buffer(id).kind)) GiveBlock(id, bytes + bound.gap_bytes);
  ReportGap(context, id, -bound.gap_bytes);
  bound = Bound();
  CountMemory(plan::MemoryCategoryOf(context.buffer(id).kind), -bytes);
  return bytes;
}

void RankOps::ReportGap(const OpContext& context, BufferId buffer, int64_t bytes) {
  if (bytes == 0) return;
  CountMemory(plan::MemoryCategory::kOther, bytes);
  rank_context_.sink->OnOtherMemory(context,
                                    {plan::MemoryCategory::kOther, bytes, MonotonicNs(), buffer});
}

BufferId RankOps::Find(const OpContext& context, const std::vector<BufferId>& ids,
                       BufferKind kind) {
  const auto found = std::find_if(ids.begin(), ids.end(),
                                  [&](BufferId id) { return context.buffer(id).kind == kind; });
  return found == ids.end() ? plan::kNone : *found;
}

std::byte* RankOps::MemoryOf(const OpContext& context, BufferId id) {
  const plan::Buffer& buffer = context.buffer(id);
  if (!buffer.persistent) return BlockOf(id);
  ShardedUnit& unit = units_[static_cast<size_t>(buffer.unit)];
  at::Tensor& tensor =
      buffer.kind == BufferKind::kGradientShard ? unit.gradient() : unit.parameters();
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

UnitMemory RankOps::UnitMemoryOf(const OpContext& context, BufferId id, plan::DType dtype) {
  return {MemoryOf(context, id), model::ScalarTypeOf(dtype), device_};
}

void RankOps::Guarded(const std::function<void()>& work) {
  try {
    work();
  } catch (const c10::OutOfMemoryError& error) {
    throw std::runtime_error(std::string(error.what_without_backtrace()) +
                             "; lower train.batch or model.dim, prefetch less, or use more GPUs");
  } catch (const c10::AcceleratorError&) {
    throw;
  } catch (const c10::Error& error) {
    throw std::runtime_error(error.what_without_backtrace());
  } catch (const transport::TransportTimeout& error) {
    throw executor::OtherRankError(error.what());
  }
}

void RankOps::Dispatch(const OpContext& context) {
  switch (context.op().kind) {
    case OpKind::kControl:
      if (on_control_) on_control_(context.step);
      return;
    case OpKind::kLoadBatch:
      return LoadBatch(context);
    case OpKind::kCast:
      return Cast(context);
    case OpKind::kCopyIn:
      return CopyIn(context);
    case OpKind::kCopyOut:
      return CopyOut(context);
    case OpKind::kAccumulate:
      return Accumulate(context);
    case OpKind::kAllGather:
      return AllGather(context);
    case OpKind::kReduceScatter:
      return ReduceScatter(context);
    case OpKind::kAllReduce:
      return AllReduce(context);
    case OpKind::kForward:
      return Forward(context);
    case OpKind::kBackward:
      return Backward(context);
    case OpKind::kReshard:
    case OpKind::kRelease:
      return;  // the executor frees
    case OpKind::kGradNorm:
      return GradNorm(context);
    case OpKind::kOptimizer:
      return Optimizer(context);
  }
}

void RankOps::LoadBatch(const OpContext& context) {
  const int64_t batch = job_->training.batch;
  const std::vector<int64_t> chosen = sampler_.Samples(context.step, rank_);
  std::vector<int64_t> samples;
  for (int64_t i = 0; i < batch; ++i) {
    const auto index = static_cast<size_t>(context.op().micro_batch * batch + i);
    model::AppendSample(job_->corpus->bytes, chosen[index], job_->model.seq, &samples);
  }
  if (job_->keep_batches) {
    kept_batches_.resize(static_cast<size_t>(context.step) + 1);
    std::vector<int64_t>& kept = kept_batches_.back();
    kept.insert(kept.end(), samples.begin(), samples.end());
  }
  StoreBatch(context, samples);
}

void RankOps::Cast(const OpContext& context) {
  ShardedUnit& unit = units_[static_cast<size_t>(context.op().unit)];
  FlatView(UnitMemoryOf(context, context.op().writes.front(), job_->model.dtype), 0,
           unit.layout().shard_elements())
      .copy_(unit.parameters());
}

// Own shard into its slot of an all-gather output (cast on the way), or the gradient into a
// rank-major reduce-scatter input. The forms of memory are those of unit_layout.h.
void RankOps::CopyIn(const OpContext& context) {
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

void RankOps::CopyOut(const OpContext& context) {
  const plan::Op& op = context.op();
  UnpackRankMajor(LayoutOf(op.unit), UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                  UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
}

// The reduced gradient into the gradient shard: overwrites in the first micro-batch, adds after.
void RankOps::Accumulate(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId source = op.reads.front();
  // no_shard without another reduce dtype: the gradient itself was all-reduced.
  const bool is_packed = context.buffer(source).kind != BufferKind::kGradient;
  TakeReduced(UnitMemoryOf(context, source, is_packed ? job_->reduce : job_->model.dtype),
              is_packed, Find(context, op.reads, BufferKind::kGradientShard) != plan::kNone,
              &units_[static_cast<size_t>(op.unit)]);
}

}  // namespace shardscope::runtime
