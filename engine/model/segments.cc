#include "engine/model/segments.h"

#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/full.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <limits>
#include <tuple>

#include "engine/model/data.h"
#include "engine/model/kernels.h"
#include "trace/base/check.h"

namespace shardscope::model {
at::Tensor RowsOf(const at::Tensor& rows, int64_t seq, const SequencePart& part) {
  const int64_t length = seq / part.count;
  return rows.unflatten(0, {-1, seq}).narrow(1, part.index * length, length);
}

TokenBatch MakeTokenBatch(const std::vector<int64_t>& samples, int64_t seq,
                          std::span<int64_t> memory, const SequencePart& part) {
  const auto row = static_cast<std::ptrdiff_t>(seq + 1);
  const auto length = static_cast<std::ptrdiff_t>(seq / part.count);
  const std::span<int64_t> inputs = memory.first(memory.size() / 2);
  const std::span<int64_t> targets = memory.last(memory.size() / 2);
  auto input = inputs.begin();
  auto target = targets.begin();
  for (auto begin = samples.begin(); begin != samples.end(); begin += row) {
    const auto first = begin + part.index * length;
    input = std::transform(first, first + length, input, TokenIdOf);
    target = std::transform(first + 1, first + length + 1, target,
                            [](int64_t token) { return token < 0 ? kNoTarget : token; });
  }
  SHARDSCOPE_CHECK(input == inputs.end());
  const auto count = static_cast<int64_t>(inputs.size());
  return {at::from_blob(inputs.data(), {count}, at::kLong),
          at::from_blob(targets.data(), {count}, at::kLong)};
}

at::ScalarType ScalarTypeOf(plan::DType dtype) {
  switch (dtype) {
    case plan::DType::kFp32:
      return at::kFloat;
    case plan::DType::kBf16:
      return at::kBFloat16;
    case plan::DType::kFp16:
      return at::kHalf;
    case plan::DType::kFp64:
      return at::kDouble;
  }
  return at::kFloat;
}

int64_t SavedBytes(const Saved& saved) {
  int64_t bytes = saved.output.defined() ? static_cast<int64_t>(saved.output.nbytes()) : 0;
  for (const at::Tensor& tensor : saved.tensors) {
    if (tensor.defined()) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

SegmentModel::SegmentModel(const ModelConfig& config, at::Device device)
    : config_(config),
      type_(ScalarTypeOf(config.dtype)),
      wide_(WideType(type_)),
      rotary_(RotaryTable(config, wide_).to(device)),
      adapters_(config) {}

Saved SegmentModel::Forward(int64_t segment, const ForwardArgs& args) const {
  const bool is_llama = config_.kind == ModelKind::kLlama;
  Saved saved;
  switch (KindOf(config_, segment)) {
    case SegmentKind::kEmbedding:
      saved = EmbeddingForward(args.parameters, args.tokens);
      break;
    case SegmentKind::kAttention:
      saved = is_llama ? LlamaAttentionForward(args) : AttentionForward(args);
      break;
    case SegmentKind::kMlp:
      saved = is_llama ? LlamaMlpForward(args) : MlpForward(args);
      break;
    case SegmentKind::kHead:
      saved = config_.logits_block > 0 ? BlockedHeadForward(args)
              : is_llama               ? LlamaHeadForward(args)
                                       : HeadForward(args.parameters, args.input, args.tokens);
      break;
  }
  if (args.norm != nullptr) {
    saved.tensors.erase(saved.tensors.begin(), saved.tensors.begin() + std::ssize(*args.norm));
  }
  return saved;
}

size_t SegmentModel::NumProducts(int64_t segment, size_t num_behind_norm) const {
  // Of a gpt's MLP the last one is behind its activation function.
  return HasGelu(segment) ? num_behind_norm - 1 : num_behind_norm;
}

void SegmentModel::Drop(int64_t segment, plan::Keeps keeps, const ForwardArgs& args,
                        Saved* saved) const {
  if (keeps == plan::Keeps::kAll) return;
  if (keeps == plan::Keeps::kOutput) return saved->tensors.clear();
  const size_t first = NumNormTensors(args);
  const size_t last = first + NumProducts(segment, saved->tensors.size() - first);
  for (size_t index = 0; index < saved->tensors.size(); ++index) {
    if (index < first || index >= last) saved->tensors[index] = at::Tensor();
  }
}

Saved SegmentModel::Recompute(int64_t segment, const ForwardArgs& args,
                              const Saved& products) const {
  const size_t first = NumNormTensors(args);
  Saved saved;
  if (first > 0) saved = Normed(args.input, args.parameters[0]);
  saved.tensors.resize(products.tensors.size());
  if (HasGelu(segment)) {
    saved.tensors.back() = at::gelu(products.tensors[first]);
  }
  return saved;
}

at::Tensor SegmentModel::Backward(int64_t segment, const BackwardArgs& args,
                                  Tensors* gradients) const {
  if (KindOf(config_, segment) == SegmentKind::kEmbedding) {
    EmbeddingBackward(args, gradients);
    return {};
  }
  const at::Tensor norm_gradient = BackwardToNorm(segment, args, gradients);
  if (!norm_gradient.defined()) return {};
  return NormBackward(args, norm_gradient, &gradients->front());
}

at::Tensor SegmentModel::BackwardToNorm(int64_t segment, const BackwardArgs& args,
                                        Tensors* gradients) const {
  const bool is_llama = config_.kind == ModelKind::kLlama;
  switch (KindOf(config_, segment)) {
    case SegmentKind::kEmbedding:
      break;
    case SegmentKind::kAttention:
      return is_llama ? LlamaAttentionBackward(args, gradients)
                      : AttentionBackward(args, gradients);
    case SegmentKind::kMlp:
      return is_llama ? LlamaMlpBackward(args, gradients) : MlpBackward(args, gradients);
    case SegmentKind::kHead:
      if (config_.logits_block > 0) return BlockedHeadBackward(args, gradients);
      return is_llama ? LlamaHeadBackward(args, gradients) : HeadBackward(args, gradients);
  }
  return {};
}

std::vector<at::Tensor> HiddenParts(const at::Tensor& hidden,
                                    const std::vector<at::Tensor>& weights, int64_t tokens) {
  const at::Tensor flat = hidden.view({-1});
  std::vector<at::Tensor> parts;
  int64_t first = 0;
  for (size_t index = 1; first < flat.numel(); ++index) {
    const int64_t columns = weights[index].size(0);
    parts.push_back(flat.narrow(0, first, tokens * columns).view({tokens, columns}));
    first += tokens * columns;
  }
  return parts;
}

bool HasBiases(const std::vector<at::Tensor>& weights, size_t num_behind_norm) {
  return weights.size() > 1 + num_behind_norm && weights[1 + num_behind_norm].dim() == 1;
}

at::Tensor SegmentModel::Part(const at::Tensor& qkv, int64_t part) const {
  const int64_t heads = qkv.size(1) / (3 * config_.head_dim());
  return qkv.view({-1, config_.seq, 3, heads, config_.head_dim()}).select(2, part).transpose(1, 2);
}

// The kernels' memory order is [batch, seq, heads, head_dim]: flattening is a view.
at::Tensor SegmentModel::Flat(const at::Tensor& attended) const {
  return attended.transpose(1, 2).reshape({-1, attended.size(1) * config_.head_dim()});
}

at::Tensor SegmentModel::Heads(const at::Tensor& flat) const {
  const int64_t heads = flat.size(1) / config_.head_dim();
  return flat.view({-1, config_.seq, heads, config_.head_dim()}).transpose(1, 2);
}

void SegmentModel::WeightGradient(const at::Tensor& output_gradient, const at::Tensor& input,
                                  at::Tensor* gradient) {
  if (!gradient->defined()) return;
  MatmulInto(output_gradient.t(), input, gradient);
}

Saved SegmentModel::NormForward(const ForwardArgs& args) const {
  Saved saved = Normed(args.input, args.parameters[0]);
  const at::Tensor own = saved.tensors[1];
  saved.tensors[1] = at::empty({own.size(0) * args.part.count, own.size(1)}, own.options());
  at::Tensor at_place = RowsOf(saved.tensors[1], config_.seq, args.part);
  at_place.copy_(own.view(at_place.sizes()));
  return saved;
}

Saved SegmentModel::StartOf(const ForwardArgs& args) const {
  return args.norm == nullptr ? Normed(args.input, args.parameters[0]) : Saved{{}, *args.norm};
}

at::Tensor SegmentModel::Output(SegmentKind kind, const ForwardArgs& args,
                                const at::Tensor& rows) const {
  if (!args.needs_output) return {};
  const size_t last = adapters_.NumWeights(kind) - 1;
  const at::Tensor weight = args.parameters[last].t();
  at::Tensor output = at::empty({rows.size(0), weight.size(1)}, rows.options());
  if (args.adds_input && args.norm == nullptr) {
    MatmulPlus(args.input, rows, weight, &output);
  } else {
    MatmulInto(rows, weight, &output);
  }
  AddAdapter(adapters_.AdapterOf(kind, args.parameters, last), rows, &output);
  if (args.norm != nullptr) {
    at::Tensor own = RowsOf(output, config_.seq, args.part);
    own.add_(args.input.view(own.sizes()));
  }
  return output;
}

SegmentModel::OutputGradient SegmentModel::OutputBackward(SegmentKind kind,
                                                          const BackwardArgs& args) const {
  const size_t last = adapters_.NumWeights(kind) - 1;
  OutputGradient gradient{.of_rows = Matmul(args.output_gradient, args.parameters[last])};
  const Adapter adapter = adapters_.AdapterOf(kind, args.parameters, last);
  if (adapter.is_there()) {
    gradient.inner = AdapterInnerGradient(adapter, args.output_gradient, &gradient.of_rows);
  }
  return gradient;
}

void SegmentModel::OutputWeightBackward(SegmentKind kind, const BackwardArgs& args,
                                        const at::Tensor& rows, const OutputGradient& gradient,
                                        Tensors* gradients) const {
  const size_t last = adapters_.NumWeights(kind) - 1;
  WeightGradient(args.output_gradient, rows, &(*gradients)[last]);
  const Adapter adapter = adapters_.AdapterOf(kind, args.parameters, last);
  if (!adapter.is_there()) return;
  Adapter of_adapter = adapters_.AdapterOf(kind, *gradients, last);
  AdapterGradients(adapter, {rows, args.output_gradient, gradient.inner}, &of_adapter);
}

void SegmentModel::WeightBackward(const Saved& saved, const at::Tensor& hidden_gradient,
                                  const Tensors& weights, Tensors* gradients) {
  const at::Tensor& normed = saved.tensors[1];
  const Tensors parts = HiddenParts(hidden_gradient, weights, normed.size(0));
  const bool has_biases = HasBiases(weights, parts.size());
  for (size_t index = 0; index < parts.size(); ++index) {
    WeightGradient(parts[index], normed, &(*gradients)[1 + index]);
    if (!has_biases) continue;
    at::Tensor& bias = (*gradients)[1 + parts.size() + index];
    if (bias.defined()) at::sum_out(bias, parts[index], 0);
  }
}

at::Tensor SegmentModel::HiddenBackward(SegmentKind kind, const BackwardArgs& args,
                                        const at::Tensor& hidden_gradient,
                                        Tensors* gradients) const {
  if (args.hidden_gradient == nullptr) {
    WeightBackward(args.saved, hidden_gradient, args.parameters, gradients);
  } else {
    *args.hidden_gradient = hidden_gradient;
  }
  const at::Tensor& normed = args.saved.tensors[1];
  const Tensors parts = HiddenParts(hidden_gradient, args.parameters, normed.size(0));
  at::Tensor norm_gradient;
  if (args.needs_input_gradient || gradients->front().defined()) {
    norm_gradient = Matmul(parts[0], args.parameters[1]);
    for (size_t index = 1; index < parts.size(); ++index) {
      AddMatmul(parts[index], args.parameters[1 + index], &norm_gradient);
    }
  }
  for (size_t index = 0; index < parts.size(); ++index) {
    const Adapter adapter = adapters_.AdapterOf(kind, args.parameters, 1 + index);
    if (!adapter.is_there()) continue;
    Adapter of_adapter = adapters_.AdapterOf(kind, *gradients, 1 + index);
    const at::Tensor inner = AdapterInnerGradient(adapter, parts[index], &norm_gradient);
    AdapterGradients(adapter, {normed, parts[index], inner}, &of_adapter);
  }
  return norm_gradient;
}

void SegmentModel::AddHidden(SegmentKind kind, const Tensors& parameters, const at::Tensor& normed,
                             Tensors* parts) const {
  for (size_t index = 0; index < parts->size(); ++index) {
    AddAdapter(adapters_.AdapterOf(kind, parameters, 1 + index), normed, &(*parts)[index]);
  }
}

Saved SegmentModel::MlpForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  Tensors before = {Matmul(saved.tensors[1], args.parameters[1].t())};
  AddHidden(SegmentKind::kMlp, args.parameters, saved.tensors[1], &before);
  const at::Tensor after = at::gelu(before[0]);
  saved.output = Output(SegmentKind::kMlp, args, after);
  saved.tensors.insert(saved.tensors.end(), {before[0], after});
  return saved;
}

at::Tensor SegmentModel::MlpBackward(const BackwardArgs& args, Tensors* gradients) const {
  const at::Tensor& before = args.saved.tensors[2];
  const at::Tensor& after = args.saved.tensors[3];
  at::Tensor hidden_gradient;
  {
    const OutputGradient output = OutputBackward(SegmentKind::kMlp, args);
    OutputWeightBackward(SegmentKind::kMlp, args, after, output, gradients);
    hidden_gradient = output.of_rows;
  }
  // Elementwise: may be written over its own input.
  at::gelu_backward_out(hidden_gradient, hidden_gradient, before);
  return HiddenBackward(SegmentKind::kMlp, args, hidden_gradient, gradients);
}

Saved SegmentModel::HeadForward(const Tensors& parameters, const at::Tensor& input,
                                const TokenBatch& tokens) const {
  Saved saved = Normed(input, parameters[0]);
  const at::Tensor logits = Matmul(saved.tensors[1], parameters[1].t());
  const at::Tensor log_probabilities = at::_log_softmax(logits.to(wide_), 1, false);
  saved.output = MeanLossOf(log_probabilities, tokens);
  saved.tensors.push_back(log_probabilities);
  return saved;
}

at::Tensor SegmentModel::HeadBackward(const BackwardArgs& args, Tensors* gradients) const {
  const at::Tensor logits_gradient = LogitsGradient(
      args.saved.tensors[2], args.tokens, args.loss_scale / static_cast<double>(args.loss_parts));
  WeightGradient(logits_gradient, args.saved.tensors[1], &(*gradients)[1]);
  return Matmul(logits_gradient, args.parameters[1]);
}

// tensors: scale, normed, log_sum [T] (wide): of exp(logit) over the vocabulary.
Saved SegmentModel::BlockedHeadForward(const ForwardArgs& args) const {
  Saved saved = Normed(args.input, args.parameters[0]);
  const at::Tensor& normed = saved.tensors[1];
  const at::Tensor& weight = args.parameters[1];
  const at::TensorOptions wide = normed.options().dtype(wide_);
  LogitRows rows{at::full({normed.size(0)}, -std::numeric_limits<double>::infinity(), wide),
                 at::zeros({normed.size(0)}, wide), at::zeros({normed.size(0)}, wide)};
  for (int64_t first = 0; first < config_.vocab; first += config_.logits_columns()) {
    const int64_t columns = std::min(config_.logits_columns(), config_.vocab - first);
    AddLogitsOf(Matmul(normed, weight.narrow(0, first, columns).t()), first, args.tokens, &rows);
  }
  const at::Tensor log_sum = rows.sum.log_().add_(rows.largest);
  // What rows are that do not count is no part of the loss.
  const at::Tensor of_rows =
      rows.of_target.sub_(log_sum).masked_fill_(args.tokens.targets.lt(0), 0);
  saved.output = of_rows.sum(at::kDouble).div_(-args.tokens.loss_rows()).to(wide_);
  saved.tensors.push_back(log_sum);
  return saved;
}

at::Tensor SegmentModel::BlockedHeadBackward(const BackwardArgs& args, Tensors* gradients) const {
  const at::Tensor& normed = args.saved.tensors[1];
  const double scale =
      args.loss_scale / (args.tokens.loss_rows() * static_cast<double>(args.loss_parts));
  at::Tensor& weight_gradient = (*gradients)[1];
  // Blocks add up to the input's gradient in the wide type.
  at::Tensor gradient = at::zeros(normed.sizes(), normed.options().dtype(wide_));
  for (int64_t first = 0; first < config_.vocab; first += config_.logits_columns()) {
    const int64_t columns = std::min(config_.logits_columns(), config_.vocab - first);
    const at::Tensor weight = args.parameters[1].narrow(0, first, columns);
    at::Tensor block = Matmul(normed, weight.t());
    GradientOfBlock(args.saved.tensors[2], first, args.tokens, scale, &block);
    if (weight_gradient.defined()) {
      at::Tensor part = weight_gradient.narrow(0, first, columns);
      WeightGradient(block, normed, &part);
    }
    if (type_ == wide_) {
      AddMatmul(block, weight, &gradient);
    } else {
      gradient.add_(Matmul(block, weight));
    }
  }
  return gradient.to(type_);
}

Saved Model::EmbeddingForward(const Tensors& parameters, const TokenBatch& tokens) const {
  Saved saved;
  saved.output = at::empty({tokens.inputs.numel(), config_.dim}, type_);
  EmbeddingRows(parameters[0], tokens.inputs.const_data_ptr<int64_t>(), &saved.output);
  return saved;
}

void Model::EmbeddingBackward(const BackwardArgs& args, Tensors* gradients) const {
  model::EmbeddingBackward(args.output_gradient, args.tokens.inputs.const_data_ptr<int64_t>(),
                           /*adds=*/config_.tied, &(*gradients)[0]);
}

// tensors: scale, normed; more follow by segment.
Saved Model::Normed(const at::Tensor& input, const at::Tensor& weight) const {
  at::Tensor scale = at::empty({input.size(0)}, wide_);
  at::Tensor normed = at::empty(input.sizes(), type_);
  RmsNorm(input, weight, config_.norm_epsilon, &normed, &scale);
  Saved saved;
  saved.tensors = {scale, normed};
  return saved;
}

at::Tensor Model::NormBackward(const BackwardArgs& args, const at::Tensor& norm_gradient,
                               at::Tensor* weight_gradient) const {
  at::Tensor input_gradient = at::empty(args.input.sizes(), type_);
  RmsNormBackward(
      {norm_gradient, args.input, args.parameters[0], args.saved.tensors[0], args.output_gradient},
      &input_gradient, weight_gradient);
  return input_gradient;
}

Saved Model::AttentionForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  Tensors hidden = {Matmul(saved.tensors[1], args.parameters[1].t())};
  AddHidden(SegmentKind::kAttention, args.parameters, saved.tensors[1], &hidden);
  const at::Tensor& qkv = hidden[0];
  // Queries and keys of a token lie side by side.
  at::Tensor heads = qkv.view({qkv.size(0), -1, config_.head_dim()});
  RotateInPlace(rotary_, heads.size(1) / 3 * 2, &heads);
  auto [attended, log_sum] =
      at::_scaled_dot_product_flash_attention_for_cpu(Part(qkv, 0), Part(qkv, 1), Part(qkv, 2), 0.0,
                                                      /*is_causal=*/true);
  saved.output = Output(SegmentKind::kAttention, args, Flat(attended));
  saved.tensors.insert(saved.tensors.end(), {qkv, log_sum, attended});
  return saved;
}

at::Tensor Model::AttentionBackward(const BackwardArgs& args, Tensors* gradients) const {
  const at::Tensor& qkv = args.saved.tensors[2];
  const at::Tensor& log_sum = args.saved.tensors[3];
  const at::Tensor& attended = args.saved.tensors[4];
  at::Tensor attended_gradient;
  {
    const OutputGradient output = OutputBackward(SegmentKind::kAttention, args);
    OutputWeightBackward(SegmentKind::kAttention, args, Flat(attended), output, gradients);
    attended_gradient = Heads(output.of_rows);
  }
  const auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      attended_gradient, Part(qkv, 0), Part(qkv, 1), Part(qkv, 2), attended, log_sum, 0.0,
      /*is_causal=*/true);
  at::Tensor qkv_gradient = at::empty(qkv.sizes(), type_);
  const at::Tensor heads = qkv_gradient.view({qkv.size(0), 3, -1, config_.head_dim()});
  HeadsToRows(rotary_, query, heads.select(1, 0));
  HeadsToRows(rotary_, key, heads.select(1, 1));
  HeadsToRows({}, value, heads.select(1, 2));
  return HiddenBackward(SegmentKind::kAttention, args, qkv_gradient, gradients);
}

at::Tensor Model::MeanLossOf(const at::Tensor& log_probabilities, const TokenBatch& tokens) const {
  const auto* targets = tokens.targets.const_data_ptr<int64_t>();
  return at::empty({}, wide_).fill_(MeanLoss(log_probabilities, targets, tokens.loss_rows()));
}

at::Tensor Model::LogitsGradient(const at::Tensor& log_probabilities, const TokenBatch& tokens,
                                 double scale) const {
  at::Tensor gradient = at::empty(log_probabilities.sizes(), type_);
  LossBackward(log_probabilities, tokens.targets.const_data_ptr<int64_t>(),
               {scale, tokens.loss_rows()}, &gradient);
  return gradient;
}

void Model::Rotate(at::Tensor* heads) const { RotateInPlace(rotary_, heads->size(1), heads); }

SegmentModel::Tensors Model::Attend(const Qkv& qkv) const {
  auto [attended, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
      qkv.query, qkv.key, qkv.value, 0.0, /*is_causal=*/true);
  return {attended, log_sum};
}

SegmentModel::Qkv Model::AttendBackward(const at::Tensor& gradient, const Qkv& qkv,
                                        const Tensors& attended) const {
  auto [query, key, value] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
      gradient, qkv.query, qkv.key, qkv.value, attended[0], attended[1], 0.0, /*is_causal=*/true);
  return {query, key, value};
}

void Model::RotateBack(const at::Tensor& gradient, bool rotates, at::Tensor* rows) const {
  HeadsToRows(rotates ? rotary_ : at::Tensor(), gradient,
              rows->view({rows->size(0), gradient.size(1), gradient.size(3)}));
}

at::Tensor Model::Gated(const at::Tensor& gate, const at::Tensor& up) const {
  at::Tensor product = at::empty(gate.sizes(), type_);
  SwiGlu(gate, up, &product);
  return product;
}

void Model::GatedBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                          at::Tensor* gate_gradient, at::Tensor* up_gradient) const {
  SwiGluBackward(gate, up, gradient, gate_gradient, up_gradient);
}

at::Tensor Model::LossInPlace(at::Tensor* logits, const TokenBatch& tokens) const {
  const double sum = CrossEntropy(tokens.targets.const_data_ptr<int64_t>(), logits);
  return at::empty({}, wide_).fill_(sum / tokens.loss_rows());
}

void Model::AddLogitsOf(const at::Tensor& block, int64_t first, const TokenBatch& tokens,
                        LogitRows* rows) const {
  AddLogits(block, first, tokens.targets.const_data_ptr<int64_t>(), rows);
}

void Model::GradientOfBlock(const at::Tensor& log_sum, int64_t first, const TokenBatch& tokens,
                            double scale, at::Tensor* block) const {
  BlockGradient(log_sum, first, tokens.targets.const_data_ptr<int64_t>(), scale, block);
}

}  // namespace shardscope::model
