// The segments of Llama, as LlamaForCausalLM of Hugging Face's transformers (modeling_llama.py) and
// with the biases of Qwen2ForCausalLM; backward formulas by hand, for any device.
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

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
      at::addmm_out(parts[index], parameters[1 + count + index], normed, weight);
    } else {
      at::mm_out(parts[index], normed, weight);
    }
  }
  return hidden;
}

// The gradient of what the norm puts out.
at::Tensor NormGradient(const Tensors& parts, const Tensors& parameters) {
  at::Tensor gradient = at::mm(parts[0], parameters[1]);
  for (size_t index = 1; index < parts.size(); ++index) {
    gradient.addmm_(parts[index], parameters[1 + index]);
  }
  return gradient;
}

}  // namespace

SegmentModel::Qkv SegmentModel::HeadsOf(const Tensors& rows) const {
  return {Heads(rows[0]), Heads(rows[1]), Heads(rows[2])};
}

// tensors: scale, normed, qkv, attended, and what its backward needs.
Saved SegmentModel::LlamaAttentionForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  const at::Tensor hidden = Hidden(saved.tensors[1], args.parameters, 3);
  const Tensors rows = HiddenParts(hidden, args.parameters, saved.tensors[1].size(0));
  for (const size_t rotated : {0, 1}) {
    at::Tensor heads = rows[rotated].view({rows[rotated].size(0), -1, config_.head_dim()});
    Rotate(&heads);
  }
  const Tensors attended = Attend(HeadsOf(rows));
  saved.output = Output(args, Flat(attended[0]), args.parameters.back());
  saved.tensors.push_back(hidden);
  saved.tensors.insert(saved.tensors.end(), attended.begin(), attended.end());
  return saved;
}

at::Tensor SegmentModel::LlamaAttentionBackward(const BackwardArgs& args,
                                                Tensors* gradients) const {
  const Tensors& tensors = args.saved.tensors;
  const Tensors attended(tensors.begin() + 3, tensors.end());
  const int64_t tokens = tensors[1].size(0);
  WeightGradient(args.output_gradient, Flat(attended[0]), &gradients->back());
  at::Tensor hidden_gradient;
  {
    const Tensors rows = HiddenParts(tensors[2], args.parameters, tokens);
    Qkv heads;
    {
      const at::Tensor attended_gradient =
          Heads(at::mm(args.output_gradient, args.parameters.back()));
      heads = AttendBackward(attended_gradient, HeadsOf(rows), attended);
    }
    hidden_gradient = at::empty(tensors[2].sizes(), tensors[2].options());
    Tensors parts = HiddenParts(hidden_gradient, args.parameters, tokens);
    RotateBack(heads.query, true, &parts[0]);
    RotateBack(heads.key, true, &parts[1]);
    RotateBack(heads.value, false, &parts[2]);
  }
  HiddenBackward(args, hidden_gradient, gradients);
  return NormGradient(HiddenParts(hidden_gradient, args.parameters, tokens), args.parameters);
}

// tensors: scale, normed, gate and up. Their product is computed again in backward.
Saved SegmentModel::LlamaMlpForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  const at::Tensor hidden = Hidden(saved.tensors[1], args.parameters, 2);
  const Tensors rows = HiddenParts(hidden, args.parameters, saved.tensors[1].size(0));
  if (args.needs_output) {
    saved.output = Output(args, Gated(rows[0], rows[1]), args.parameters.back());
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
    at::Tensor product = at::mm(args.output_gradient, args.parameters.back());
    GatedBackward(rows[0], rows[1], &product, &parts[0], &parts[1]);
    WeightGradient(args.output_gradient, product, &gradients->back());
  }
  HiddenBackward(args, hidden_gradient, gradients);
  return NormGradient(parts, args.parameters);
}

// tensors: scale, normed, the gradient of the logits times T: of all that is as large as the
// logits, it alone is ever there.
Saved SegmentModel::LlamaHeadForward(const ForwardArgs& args) const {
  Saved saved = Normed(args.input, args.parameters[0]);
  at::Tensor logits = at::mm(saved.tensors[1], args.parameters[1].t());
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
  at::addmm_out(weight_gradient, weight_gradient, logits_gradient.t(), normed, 0, scale);
  at::Tensor gradient = at::empty(normed.sizes(), normed.options());
  return gradient.addmm_(logits_gradient, args.parameters[1], 0, scale);
}

}  // namespace shardscope::model
