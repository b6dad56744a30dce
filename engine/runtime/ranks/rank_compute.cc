// Compute ops of RankBodies: forward, backward, gradient norm, optimizer.
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "engine/runtime/memory/tensor_memory.h"
#include "engine/runtime/ranks/rank_bodies.h"
#include "trace/base/check.h"
#include "trace/base/time.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

namespace {

// The activation of `segment` among the buffers that an op reads.
BufferId ActivationOf(const OpContext& context, int32_t segment) {
  for (const BufferId id : context.op().reads) {
    const plan::Buffer& buffer = context.buffer(id);
    if (buffer.kind == BufferKind::kActivation && buffer.segment == segment) return id;
  }
  return plan::kNone;
}

}  // namespace

// Views without padding, in whatever form the parameters are: gathered (unsharded form), or with
// no_shard the packed shard itself, cast or not.
std::vector<at::Tensor> RankBodies::ParameterViews(const OpContext& context, int32_t segment) {
  const auto unit =
      static_cast<size_t>(context.schedule->segments[static_cast<size_t>(segment)].unit);
  BufferId id = Find(context, context.op().reads, BufferKind::kUnsharded);
  const bool is_packed = id == plan::kNone;
  if (is_packed) id = Find(context, context.op().reads, BufferKind::kCastShard);
  if (id == plan::kNone) id = Find(context, context.op().reads, BufferKind::kParameterShard);
  SHARDSCOPE_CHECK(id != plan::kNone);
  const UnitMemory memory = UnitMemoryOf(context, id, job_->model.dtype);
  std::vector<at::Tensor> views;
  for (const size_t index : segment_parameters_[static_cast<size_t>(segment)]) {
    views.push_back(ParameterView(units_[unit].layout(), index, memory, is_packed));
  }
  return views;
}

std::vector<at::Tensor> RankBodies::GradientViews(const OpContext& context, int32_t segment) {
  const auto unit =
      static_cast<size_t>(context.schedule->segments[static_cast<size_t>(segment)].unit);
  const UnitMemory memory = UnitMemoryOf(
      context, Find(context, context.op().writes, BufferKind::kGradient), job_->model.dtype);
  std::vector<at::Tensor> views;
  for (const size_t index : segment_parameters_[static_cast<size_t>(segment)]) {
    views.push_back(ParameterView(units_[unit].layout(), index, memory, /*is_packed=*/false));
  }
  return views;
}

void RankBodies::ReportTemporaries(const OpContext& context, int64_t bytes, int64_t start_ns) {
  if (bytes == 0) return;
  sink_->OnOtherMemory(context, {plan::MemoryCategory::kTemporary, bytes, start_ns});
  sink_->OnOtherMemory(context, {plan::MemoryCategory::kTemporary, -bytes, MonotonicNs()});
}

void RankBodies::Forward(const OpContext& context) {
  const int64_t start_ns = MonotonicNs();
  const TemporaryMemory temporaries;
  const int32_t segment = context.op().segment;
  const BufferId before = ActivationOf(context, segment - 1);
  const BufferId batch = Find(context, context.op().reads, BufferKind::kBatch);
  static const model::TokenBatch kNoTokens;
  Bound& result = At(context.op().writes.front());
  result.saved = model_->Forward(segment, ParameterViews(context, segment),
                                 before == plan::kNone ? at::Tensor() : At(before).saved.output,
                                 batch == plan::kNone ? kNoTokens : At(batch).tokens);
  ReportTemporaries(context, temporaries.Finish(), start_ns);
  if (static_cast<size_t>(segment) + 1 == context.schedule->segments.size()) {
    // The last segment's output is the loss of this micro-batch.
    outcome_.loss +=
        result.saved.output.item<double>() / static_cast<double>(job_->training.micro_batches);
  }
}

void RankBodies::Backward(const OpContext& context) {
  const int64_t start_ns = MonotonicNs();
  const TemporaryMemory temporaries;
  const int32_t segment = context.op().segment;
  const std::vector<BufferId>& reads = context.op().reads;
  const BufferId before = ActivationOf(context, segment - 1);
  const BufferId incoming = Find(context, reads, BufferKind::kActivationGradient);
  const BufferId batch = Find(context, reads, BufferKind::kBatch);
  const BufferId outgoing = Find(context, context.op().writes, BufferKind::kActivationGradient);
  static const model::TokenBatch kNoTokens;
  static const at::Tensor kNoTensor;
  const std::vector<at::Tensor> parameters = ParameterViews(context, segment);
  std::vector<at::Tensor> gradients = GradientViews(context, segment);
  at::Tensor input_gradient = model_->Backward(
      segment,
      {.parameters = parameters,
       .input = before == plan::kNone ? kNoTensor : At(before).saved.output,
       .saved = At(ActivationOf(context, segment)).saved,
       .output_gradient = incoming == plan::kNone ? kNoTensor : At(incoming).gradient,
       .tokens = batch == plan::kNone ? kNoTokens : At(batch).tokens},
      &gradients);
  ReportTemporaries(context, temporaries.Finish(), start_ns);
  if (outgoing != plan::kNone) At(outgoing).gradient = std::move(input_gradient);
}

void RankBodies::GradNorm(const OpContext& context) {
  double squares = 0;
  for (const ShardedUnit& unit : units_) squares += unit.GradientSquares();
  std::memcpy(At(context.op().writes.front()).memory, &squares, sizeof(squares));
}

void RankBodies::Optimizer(const OpContext& context) {
  const BufferId norm_buffer = Find(context, context.op().reads, BufferKind::kNorm);
  double squares = 0;
  std::memcpy(&squares, At(norm_buffer).memory, sizeof(squares));
  const double norm = std::sqrt(squares);
  outcome_.grad_norm = norm;
  if (!std::isfinite(norm)) {
    throw std::runtime_error("the gradient is not finite: lower train.lr, or use fp32");
  }
  const model::TrainingSettings& training = job_->training;
  const double rate = model::LearningRateAt(learning_rate_, training.warmup_steps, context.step);
  units_[static_cast<size_t>(context.op().unit)].Update(
      {.learning_rate = rate,
       .gradient_scale = model::ClipScale(norm, training.clip),
       .step = context.step});
}

}  // namespace shardscope::runtime
