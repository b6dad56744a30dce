// The segments of Llama, as LlamaForCausalLM of Hugging Face's transformers (modeling_llama.py) and
// with the biases of Qwen2ForCausalLM; backward formulas by hand, for any device.
#include <ATen/ops/empty.h>

#include "engine/model/matmul.h"
#include "engine/model/segments.h"

namespace shardscope::model {
namespace {

using Tensors = std::vector<at::Tensor>;

// What the `count` weights behind the norm put out, one after the other in one tensor; with the
// biases that follow them where there are any.
at::Tensor Hidden(const at::Tensor& normed, const Tensors& parameters, size_t count) {
  int64_t columns = 0;
  for (size_t index = 1; index <= count; ++index) columns += parameters[index].size(0);
  at::Tensor hidden = at::empty({normed.size(0) * columns}, normed.options());
  Tensors parts = HiddenParts(hidden, parameters, normed.size(0));
  const bool has_biases = HasBiases(parameters, count);
  for (size_t index = 0; index < count; ++index) {
    const at::Tensor weight = parameters[1 + index].t();
    if (has_biases) {
      MatmulPlus(parameters[1 + count + index], normed, weight, &parts[index]);
    } else {
      MatmulInto(normed, weight, &parts[index]);
    }
  }
  return hidden;
}

}  // namespace

SegmentModel::Qkv SegmentModel::HeadsOf(const Tensors& rows) const {
  return {Heads(rows[0]), Heads(rows[1]), Heads(rows[2])};
}

// tensors: scale, normed, qkv, attended, and what its backward needs.
Saved SegmentModel::LlamaAttentionForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  const at::Tensor hidden = Hidden(saved.tensors[1], args.parameters, 3);
  Tensors rows = HiddenParts(hidden, args.parameters, saved.tensors[1].size(0));
  AddHidden(SegmentKind::kAttention, args.parameters, saved.tensors[1], &rows);
  for (const size_t rotated : {0, 1}) {
    at::Tensor heads = rows[rotated].view({rows[rotated].size(0), -1, config_.head_dim()});
    Rotate(&heads);
  }
  const Tensors attended = Attend(HeadsOf(rows));
  saved.output = Output(SegmentKind::kAttention, args, Flat(attended[0]));
  saved.tensors.push_back(hidden);
  saved.tensors.insert(saved.tensors.end(), attended.begin(), attended.end());
  return saved;
}

at::Tensor SegmentModel::LlamaAttentionBackward(const BackwardArgs& args,
                                                Tensors* gradients) const {
  const Tensors& tensors = args.saved.tensors;
  const Tensors attended(tensors.begin() + 3, tensors.end());
  const int64_t tokens = tensors[1].size(0);
  at::Tensor attended_gradient;
  {
    const OutputGradient output = OutputBackward(SegmentKind::kAttention, args);
    OutputWeightBackward(SegmentKind::kAttention, args, Flat(attended[0]), output, gradients);
    attended_gradient = Heads(output.of_rows);
  }
  at::Tensor hidden_gradient;
  {
    const Tensors rows = HiddenParts(tensors[2], args.parameters, tokens);
    const Qkv heads = AttendBackward(attended_gradient, HeadsOf(rows), attended);
    attended_gradient = at::Tensor();
    hidden_gradient = at::empty(tensors[2].sizes(), tensors[2].options());
    Tensors parts = HiddenParts(hidden_gradient, args.parameters, tokens);
    RotateBack(heads.query, true, &parts[0]);
    RotateBack(heads.key, true, &parts[1]);
    RotateBack(heads.value, false, &parts[2]);
  }
  return HiddenBackward(SegmentKind::kAttention, args, hidden_gradient, gradients);
}

// tensors: scale, normed, gate and up. Their product is computed again in backward.
Saved SegmentModel::LlamaMlpForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  const at::Tensor hidden = Hidden(saved.tensors[1], args.parameters, 2);
  Tensors rows = HiddenParts(hidden, args.parameters, saved.tensors[1].size(0));
  AddHidden(SegmentKind::kMlp, args.parameters, saved.tensors[1], &rows);
  if (args.needs_output) {
    saved.output = Output(SegmentKind::kMlp, args, Gated(rows[0], rows[1]));
  }
  saved.tensors.push_back(hidden);
  return saved;
}

at::Tensor SegmentModel::LlamaMlpBackward(const BackwardArgs& args, Tensors* gradients) const {
  const at::Tensor& hidden = args.saved.tensors[2];
  const int64_t tokens = args.saved.tensors[1].size(0);
  const at::Tensor hidden_gradient = at::empty(hidden.sizes(), hidden.options());
  Tensors parts = HiddenParts(hidden_gradient, args.parameters, tokens);
  {
    const Tensors rows = HiddenParts(hidden, args.parameters, tokens);
    const OutputGradient output = OutputBackward(SegmentKind::kMlp, args);
    at::Tensor product = output.of_rows;
    GatedBackward(rows[0], rows[1], &product, &parts[0], &parts[1]);
    OutputWeightBackward(SegmentKind::kMlp, args, product, output, gradients);
  }
  return HiddenBackward(SegmentKind::kMlp, args, hidden_gradient, gradients);
}

// tensors: scale, normed, the gradient of the logits times T: of all that is as large as the
// logits, it alone is ever there.
Saved SegmentModel::LlamaHeadForward(const ForwardArgs& args) const {
  Saved saved = Normed(args.input, args.parameters[0]);
  at::Tensor logits = Matmul(saved.tensors[1], args.parameters[1].t());
  saved.output = LossInPlace(&logits, args.tokens);
  saved.tensors.push_back(logits);
  return saved;
}

at::Tensor SegmentModel::LlamaHeadBackward(const BackwardArgs& args, Tensors* gradients) const {
  const at::Tensor& normed = args.saved.tensors[1];
  const at::Tensor& logits_gradient = args.saved.tensors[2];
  const double scale =
      args.loss_scale / (args.tokens.loss_rows() * static_cast<double>(args.loss_parts));
  at::Tensor& weight_gradient = (*gradients)[1];
  if (weight_gradient.defined()) {
    MatmulInto(logits_gradient.t(), normed, &weight_gradient, scale);
  }
  at::Tensor gradient = at::empty(normed.sizes(), normed.options());
  MatmulInto(logits_gradient, args.parameters[1], &gradient, scale);
  return gradient;
}

}  // namespace shardscope::model
