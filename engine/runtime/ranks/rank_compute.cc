// What forward and backward of a segment read and write.
#include <ATen/ops/empty.h>

#include <algorithm>
#include <utility>

#include "engine/runtime/ranks/rank_ops.h"
#include "trace/base/check.h"

namespace shardscope::runtime {

using executor::OpContext;
using plan::BufferId;
using plan::BufferKind;
using plan::OpKind;

namespace {

// The buffer of `segment` among those that an op reads.
BufferId FindRead(const OpContext& context, BufferKind kind, int32_t segment) {
  for (const BufferId id : context.op().reads) {
    const plan::Buffer& buffer = context.buffer(id);
    if (buffer.kind == kind && buffer.segment == segment) return id;
  }
  return plan::kNone;
}

// What a forward keeps in this buffer.
plan::Keeps KeepsIn(const OpContext& context, const plan::Buffer& buffer) {
  const plan::Segment& segment = context.schedule->segments[static_cast<size_t>(buffer.segment)];
  if (buffer.bytes == segment.activation_bytes) return plan::Keeps::kAll;
  return buffer.bytes == segment.output_bytes ? plan::Keeps::kOutput : plan::Keeps::kProducts;
}

}  // namespace

// Views without padding, in whatever form the parameters are: gathered (unsharded form), or with
// no_shard the packed shard itself, cast or not.
std::vector<at::Tensor> RankOps::ParameterViews(const OpContext& context, int32_t segment) {
  return Views(context, segment, context.op().reads, /*is_trained=*/false,
               {BufferKind::kUnsharded, BufferKind::kCastShard, BufferKind::kParameterShard});
}

std::vector<at::Tensor> RankOps::GradientViews(const OpContext& context, int32_t segment) {
  return Views(context, segment, context.op().writes, /*is_trained=*/true,
               {BufferKind::kGradient, BufferKind::kGradientShard});
}

// Of each parameter of the segment, in its unit's buffer among `ids` of one of these kinds, of
// which the first is in unsharded form and the others are packed. `is_trained`: undefined views of
// those that are frozen.
std::vector<at::Tensor> RankOps::Views(const OpContext& context, int32_t segment,
                                       const std::vector<BufferId>& ids, bool is_trained,
                                       std::initializer_list<BufferKind> kinds) {
  std::vector<at::Tensor> views;
  for (const UnitParameter& parameter : segment_parameters_[static_cast<size_t>(segment)]) {
    const UnitLayout& layout = LayoutOf(parameter.unit);
    if (is_trained && layout.parameters()[parameter.index].parameter.is_frozen) {
      views.emplace_back();
      continue;
    }
    const auto found = std::ranges::find_if(ids, [&](BufferId id) {
      const plan::Buffer& buffer = context.buffer(id);
      return buffer.unit == parameter.unit && std::ranges::find(kinds, buffer.kind) != kinds.end();
    });
    SHARDSCOPE_CHECK(found != ids.end());
    views.push_back(ParameterView(layout, parameter.index,
                                  UnitMemoryOf(context, *found, job_->model.dtype),
                                  context.buffer(*found).kind != *kinds.begin()));
  }
  return views;
}

model::TokenBatch RankOps::TokensOf(const OpContext& context) {
  const BufferId batch = Find(context, context.op().reads, BufferKind::kBatch);
  if (batch == plan::kNone) return {};
  model::TokenBatch tokens = At(batch).tokens;
  if (!IsLastSegment(context)) return tokens;
  if (IsEvaluation(context)) {
    // A step's loss is the mean of its micro-batches': so that of an evaluation is a sum.
    tokens.mean_over = 1 / static_cast<double>(job_->training.micro_batches);
  } else if (job_->corpus->is_masked) {
    tokens.mean_over = LossRows(context.step);
  }
  return tokens;
}

// The mean over ranks and micro-batches, which steps take, of sums divided by this is the mean over
// all targets of the step that count. Each rank finds their number in the data.
double RankOps::LossRows(int64_t step) {
  if (count_.step != step) {
    count_.targets = model::CountedTargets(*job_->corpus, &count_.sampler, step, job_->model.seq);
    count_.step = step;
  }
  outcome_.counts = count_.targets > 0;
  const int64_t shares =
      layout_.mesh.SizeOf(plan::kDataDimensions) * job_->training.micro_batches * part_.count;
  // Where nothing counts, all sums are 0.
  return static_cast<double>(std::max<int64_t>(1, count_.targets)) / static_cast<double>(shares);
}

// What the segment before has left, here or on another rank; none of the first segment.
at::Tensor RankOps::InputOf(const OpContext& context) {
  const BufferId received = Find(context, context.op().reads, BufferKind::kReceivedActivation);
  if (received != plan::kNone) return RowsIn(context, received);
  for (const BufferKind kind : {BufferKind::kActivation, BufferKind::kRecomputed}) {
    const BufferId before = FindRead(context, kind, context.op().segment - 1);
    if (before != plan::kNone) return At(before).saved.output;
  }
  return {};
}

void RankOps::Forward(const OpContext& context) {
  const plan::Op& op = context.op();
  const model::TokenBatch tokens = TokensOf(context);
  const at::Tensor input = InputOf(context);
  const BufferId norm = Find(context, op.reads, BufferKind::kNormOutput);
  const plan::Buffer& result = context.buffer(op.writes.front());
  const int64_t activation_bytes =
      context.schedule->segments[static_cast<size_t>(op.segment)].activation_bytes;
  const bool recomputes = op.kind == OpKind::kRecompute;
  const model::SegmentModel::ForwardArgs args = {
      .parameters = ParameterViews(context, op.segment),
      .input = input,
      .tokens = tokens,
      .adds_input = IsFirstTensor(),
      .part = part_,
      .norm = norm == plan::kNone ? nullptr : &At(norm).saved.tensors,
      .needs_output = !recomputes || result.bytes == activation_bytes};
  model::Saved& saved = At(op.writes.front()).saved;
  if (result.kind == BufferKind::kNormOutput) {
    saved = model_.NormForward(args);
    return;
  }
  const BufferId products =
      recomputes ? FindRead(context, BufferKind::kActivation, op.segment) : plan::kNone;
  if (products != plan::kNone) {
    saved = model_.Recompute(op.segment, args, At(products).saved);
    return;
  }
  const BufferId parts = Find(context, op.writes, BufferKind::kPartialOutput);
  if (parts == plan::kNone) {
    saved = model_.Forward(op.segment, args);
  } else {
    // What the sum of the parts is scattered into.
    const at::Tensor own = at::empty(input.sizes(), input.options());
    saved = model_.Forward(op.segment, args);
    At(parts).tensor = std::exchange(saved.output, own);
  }
  if (recomputes) return;
  model_.Drop(op.segment, KeepsIn(context, result), args, &saved);
  // The last segment's output is the loss of this micro-batch, which all tensor ranks have, or each
  // has of its part.
  if (IsLastSegment(context) && (IsFirstTensor() || part_.count > 1)) {
    outcome_.tokens += tokens.targets.numel();
    AddLoss(context, saved.output);
  }
}

model::Saved RankOps::SavedOf(const OpContext& context) {
  const plan::Op& op = context.op();
  const BufferId kept = FindRead(context, BufferKind::kActivation, op.segment);
  const BufferId recomputed = FindRead(context, BufferKind::kRecomputed, op.segment);
  model::Saved saved = At(kept == plan::kNone ? recomputed : kept).saved;
  if (kept != plan::kNone && recomputed != plan::kNone) {
    const std::vector<at::Tensor>& between = At(recomputed).saved.tensors;
    for (size_t index = 0; index < between.size(); ++index) {
      if (between[index].defined()) saved.tensors[index] = between[index];
    }
  }
  if (const BufferId norm = Find(context, op.reads, BufferKind::kNormOutput); norm != plan::kNone) {
    const std::vector<at::Tensor>& before = At(norm).saved.tensors;
    saved.tensors.insert(saved.tensors.begin(), before.begin(), before.end());
  }
  return saved;
}

void RankOps::WeightBackward(const OpContext& context) {
  const plan::Op& op = context.op();
  std::vector<at::Tensor> gradients = GradientViews(context, op.segment);
  const BufferId hidden = Find(context, op.reads, BufferKind::kHiddenGradient);
  model::SegmentModel::WeightBackward(SavedOf(context), At(hidden).tensor, gradients, &gradients);
}

void RankOps::Backward(const OpContext& context) {
  if (context.op().kind == OpKind::kWeightBackward) return WeightBackward(context);
  const int32_t segment = context.op().segment;
  const std::vector<BufferId>& reads = context.op().reads;
  const at::Tensor input = InputOf(context);
  const BufferId received = Find(context, reads, BufferKind::kReceivedGradient);
  const BufferId incoming = Find(context, reads, BufferKind::kActivationGradient);
  at::Tensor output_gradient;
  if (received != plan::kNone) {
    output_gradient = RowsIn(context, received);
  } else if (incoming != plan::kNone) {
    output_gradient = At(incoming).tensor;
  }
  const BufferId outgoing = Find(context, context.op().writes, BufferKind::kActivationGradient);
  const BufferId to_norm = Find(context, context.op().writes, BufferKind::kNormGradient);
  const std::vector<at::Tensor> parameters = ParameterViews(context, segment);
  std::vector<at::Tensor> gradients = GradientViews(context, segment);
  const model::Saved saved = SavedOf(context);
  const BufferId hidden = Find(context, context.op().writes, BufferKind::kHiddenGradient);
  const model::TokenBatch tokens = TokensOf(context);
  const model::SegmentModel::BackwardArgs args = {
      .parameters = parameters,
      .input = input,
      .saved = saved,
      .output_gradient = output_gradient,
      .tokens = tokens,
      .loss_parts = part_.count,
      .loss_scale = scaler_.scale,
      .hidden_gradient = hidden == plan::kNone ? nullptr : &At(hidden).tensor,
      .needs_input_gradient = outgoing != plan::kNone || to_norm != plan::kNone};
  if (to_norm != plan::kNone) {
    At(to_norm).tensor = model_.BackwardToNorm(segment, args, &gradients);
    return;
  }
  const BufferId from_norm = Find(context, reads, BufferKind::kNormGradient);
  at::Tensor input_gradient =
      from_norm == plan::kNone
          ? model_.Backward(segment, args, &gradients)
          : model_.NormBackward(args, At(from_norm).tensor, &gradients.front());
  if (outgoing != plan::kNone) At(outgoing).tensor = std::move(input_gradient);
}

}  // namespace shardscope::runtime
