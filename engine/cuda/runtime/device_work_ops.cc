// Compute, copy and optimizer ops of DeviceWork. The forms of memory are those of unit_layout.h.
#include <ATen/TensorOperators.h>

#include "engine/cuda/runtime/device_optimizer.h"
#include "engine/cuda/runtime/device_work.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::cuda {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using runtime::UnitMemory;

namespace {

// The first buffer of `kind` among `ids`, or kNone.
BufferId Find(const OpContext& context, const std::vector<BufferId>& ids, BufferKind kind) {
  for (const BufferId id : ids) {
    if (context.buffer(id).kind == kind) return id;
  }
  return plan::kNone;
}

// The activation of `segment` among the buffers that an op reads.
BufferId ActivationOf(const OpContext& context, int32_t segment) {
  for (const BufferId id : context.op().reads) {
    const plan::Buffer& buffer = context.buffer(id);
    if (buffer.kind == BufferKind::kActivation && buffer.segment == segment) return id;
  }
  return plan::kNone;
}

int32_t UnitOf(const OpContext& context, int32_t segment) {
  return context.schedule->segments[static_cast<size_t>(segment)].unit;
}

const DeviceTokens kNoTokens;
const at::Tensor kNoTensor;

}  // namespace

// In whatever form the parameters are: gathered (unsharded form), or with no_shard the packed shard
// itself, cast or not.
std::vector<at::Tensor> DeviceWork::ParameterViews(const OpContext& context, int32_t segment) {
  const std::vector<BufferId>& reads = context.op().reads;
  BufferId id = Find(context, reads, BufferKind::kUnsharded);
  const bool is_packed = id == plan::kNone;
  if (is_packed) id = Find(context, reads, BufferKind::kCastShard);
  if (id == plan::kNone) id = Find(context, reads, BufferKind::kParameterShard);
  SHARDSCOPE_CHECK(id != plan::kNone);
  const UnitMemory memory = UnitMemoryOf(context, id, job_->model.dtype);
  std::vector<at::Tensor> views;
  for (const size_t index : segment_parameters_[static_cast<size_t>(segment)]) {
    views.push_back(
        runtime::ParameterView(LayoutOf(UnitOf(context, segment)), index, memory, is_packed));
  }
  return views;
}

std::vector<at::Tensor> DeviceWork::GradientViews(const OpContext& context, int32_t segment) {
  const UnitMemory memory = UnitMemoryOf(
      context, Find(context, context.op().writes, BufferKind::kGradient), job_->model.dtype);
  std::vector<at::Tensor> views;
  for (const size_t index : segment_parameters_[static_cast<size_t>(segment)]) {
    views.push_back(runtime::ParameterView(LayoutOf(UnitOf(context, segment)), index, memory,
                                           /*is_packed=*/false));
  }
  return views;
}

void DeviceWork::Forward(const OpContext& context) {
  const int32_t segment = context.op().segment;
  const BufferId before = ActivationOf(context, segment - 1);
  const BufferId batch = Find(context, context.op().reads, BufferKind::kBatch);
  Bound& result = At(context.op().writes.front());
  result.saved = place_.model->Forward(segment, ParameterViews(context, segment),
                                       before == plan::kNone ? kNoTensor : At(before).saved.output,
                                       batch == plan::kNone ? kNoTokens : At(batch).tokens);
  result.gap_bytes = model::SavedBytes(result.saved) - result.bytes;
  ReportOther(context, result.gap_bytes);
  if (static_cast<size_t>(segment) + 1 == context.schedule->segments.size()) {
    // The last segment's output is the loss of this micro-batch.
    const at::Tensor share =
        result.saved.output.to(at::kDouble).div(static_cast<double>(job_->training.micro_batches));
    if (context.op().micro_batch == 0) {
      loss_.copy_(share);
    } else {
      loss_.add_(share);
    }
  }
}

void DeviceWork::Backward(const OpContext& context) {
  const int32_t segment = context.op().segment;
  const std::vector<BufferId>& reads = context.op().reads;
  const BufferId before = ActivationOf(context, segment - 1);
  const BufferId incoming = Find(context, reads, BufferKind::kActivationGradient);
  const BufferId batch = Find(context, reads, BufferKind::kBatch);
  const BufferId outgoing = Find(context, context.op().writes, BufferKind::kActivationGradient);
  const std::vector<at::Tensor> parameters = ParameterViews(context, segment);
  std::vector<at::Tensor> gradients = GradientViews(context, segment);
  at::Tensor input_gradient = place_.model->Backward(
      segment,
      {.parameters = parameters,
       .input = before == plan::kNone ? kNoTensor : At(before).saved.output,
       .saved = At(ActivationOf(context, segment)).saved,
       .output_gradient = incoming == plan::kNone ? kNoTensor : At(incoming).gradient,
       .tokens = batch == plan::kNone ? kNoTokens : At(batch).tokens},
      &gradients);
  if (outgoing != plan::kNone) At(outgoing).gradient = std::move(input_gradient);
}

void DeviceWork::GradNorm(const OpContext& context) {
  const UnitMemory norm{MemoryOf(context, context.op().writes.front()), at::kDouble, place_.device};
  runtime::FlatView(norm, 0, 1).copy_(GradientSquares(units_));
}

void DeviceWork::Optimizer(const OpContext& context) {
  const model::TrainingSettings& training = job_->training;
  const BufferId squares = Find(context, context.op().reads, BufferKind::kNorm);
  const DeviceUpdate update{
      .squares = runtime::FlatView({MemoryOf(context, squares), at::kDouble, place_.device}, 0, 1),
      .learning_rate = model::LearningRateAt(learning_rate_, training.warmup_steps, context.step),
      .clip = training.clip,
      .step = context.step};
  norm_.copy_(update.squares.sqrt());
  UpdateFused(update, &units_[static_cast<size_t>(context.op().unit)]);
}

void DeviceWork::Cast(const OpContext& context) {
  runtime::ShardedUnit& unit = units_[static_cast<size_t>(context.op().unit)];
  runtime::FlatView(UnitMemoryOf(context, context.op().writes.front(), job_->model.dtype), 0,
                    unit.layout().shard_elements())
      .copy_(unit.parameters());
}

// Own shard into its slot of an all-gather output (cast on the way), or the gradient into a
// rank-major reduce-scatter input.
void DeviceWork::CopyIn(const OpContext& context) {
  const plan::Op& op = context.op();
  runtime::ShardedUnit& unit = units_[static_cast<size_t>(op.unit)];
  const BufferId target = op.writes.front();
  if (context.buffer(target).kind == BufferKind::kAllGatherOutput) {
    const UnitMemory memory = UnitMemoryOf(context, target, job_->model.dtype);
    const int64_t elements = unit.layout().shard_elements();
    runtime::FlatView(memory, elements * rank_ * memory.element_bytes(), elements)
        .copy_(unit.parameters());
    return;
  }
  SHARDSCOPE_CHECK(context.buffer(target).kind == BufferKind::kReduceScatterInput);
  runtime::PackRankMajor(unit.layout(), UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                         UnitMemoryOf(context, target, job_->reduce));
}

void DeviceWork::CopyOut(const OpContext& context) {
  const plan::Op& op = context.op();
  runtime::UnpackRankMajor(LayoutOf(op.unit),
                           UnitMemoryOf(context, op.reads.front(), job_->model.dtype),
                           UnitMemoryOf(context, op.writes.front(), job_->model.dtype));
}

// The reduced gradient into the gradient shard: overwrites in the first micro-batch, adds after.
void DeviceWork::Accumulate(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId source = op.reads.front();
  // no_shard without another reduce dtype: the gradient itself was all-reduced.
  const bool is_packed = context.buffer(source).kind != BufferKind::kGradient;
  runtime::TakeReduced(UnitMemoryOf(context, source, is_packed ? job_->reduce : job_->model.dtype),
                       is_packed,
                       Find(context, op.reads, BufferKind::kGradientShard) != plan::kNone,
                       &units_[static_cast<size_t>(op.unit)]);
}

}  // namespace shardscope::cuda
