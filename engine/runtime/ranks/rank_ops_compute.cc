// Forward and backward of RankOps: which tensors a segment is given.
#include "engine/runtime/ranks/rank_ops.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;

namespace {

const at::Tensor kNoTensor;

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

}  // namespace

// Views without padding, in whatever form the parameters are: gathered (unsharded form), or with
// no_shard the packed shard itself, cast or not.
std::vector<at::Tensor> RankOps::ParameterViews(const OpContext& context, int32_t segment) {
  const std::vector<BufferId>& reads = context.op().reads;
  BufferId id = Find(context, reads, BufferKind::kUnsharded);
  const bool is_packed = id == plan::kNone;
  if (is_packed) id = Find(context, reads, BufferKind::kCastShard);
  if (id == plan::kNone) id = Find(context, reads, BufferKind::kParameterShard);
  SHARDSCOPE_CHECK(id != plan::kNone);
  const UnitMemory memory = UnitMemoryOf(context, id, job_->model.dtype);
  std::vector<at::Tensor> views;
  for (const size_t index : segment_parameters_[static_cast<size_t>(segment)]) {
    views.push_back(ParameterView(LayoutOf(UnitOf(context, segment)), index, memory, is_packed));
  }
  return views;
}

std::vector<at::Tensor> RankOps::GradientViews(const OpContext& context, int32_t segment) {
  const UnitMemory memory = UnitMemoryOf(
      context, Find(context, context.op().writes, BufferKind::kGradient), job_->model.dtype);
  std::vector<at::Tensor> views;
  for (const size_t index : segment_parameters_[static_cast<size_t>(segment)]) {
    views.push_back(ParameterView(LayoutOf(UnitOf(context, segment)), index, memory,
                                  /*is_packed=*/false));
  }
  return views;
}

void RankOps::Forward(const OpContext& context) {
  const int32_t segment = context.op().segment;
  const BufferId before = ActivationOf(context, segment - 1);
  Bound& result = At(context.op().writes.front());
  result.saved = ForwardOf(segment, ParameterViews(context, segment),
                           before == plan::kNone ? kNoTensor : At(before).saved.output,
                           Find(context, context.op().reads, BufferKind::kBatch));
  // The last segment's output is the loss of this micro-batch.
  if (static_cast<size_t>(segment) + 1 == context.schedule->segments.size()) {
    AddLoss(context, result.saved.output);
  }
}

void RankOps::Backward(const OpContext& context) {
  const int32_t segment = context.op().segment;
  const std::vector<BufferId>& reads = context.op().reads;
  const BufferId before = ActivationOf(context, segment - 1);
  const BufferId incoming = Find(context, reads, BufferKind::kActivationGradient);
  const BufferId outgoing = Find(context, context.op().writes, BufferKind::kActivationGradient);
  const std::vector<at::Tensor> parameters = ParameterViews(context, segment);
  std::vector<at::Tensor> gradients = GradientViews(context, segment);
  at::Tensor input_gradient =
      BackwardOf(segment,
                 {.parameters = parameters,
                  .input = before == plan::kNone ? kNoTensor : At(before).saved.output,
                  .saved = At(ActivationOf(context, segment)).saved,
                  .output_gradient = incoming == plan::kNone ? kNoTensor : At(incoming).gradient,
                  .batch = Find(context, reads, BufferKind::kBatch)},
                 &gradients);
  if (outgoing != plan::kNone) At(outgoing).gradient = std::move(input_gradient);
}

}  // namespace shardscope::runtime
