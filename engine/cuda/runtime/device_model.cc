#include "engine/cuda/runtime/device_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/_fused_rms_norm.h>
#include <ATen/ops/_fused_rms_norm_backward.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_backward.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/gelu_backward.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/silu.h>
#include <ATen/ops/stack.h>

#include <tuple>
#include <utility>
#include <vector>

#include "engine/cuda/runtime/stream_scope.h"

namespace shardscope::cuda {
namespace {

using model::Saved;
using model::SegmentKind;
using model::TokenBatch;

constexpr double kNoDropout = 0.0;

// CUDA's FlashAttention takes half precision only.
bool IsFlash(const at::Tensor& query) { return query.element_size() == 2; }

// Views of [batch, heads, seq, head_dim] with contiguous channels.
struct AttentionInputs {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
};

// The output, [batch, heads, seq, head_dim] whose memory order is [batch, seq, heads, head_dim],
// then what the backward needs beside it.
std::vector<at::Tensor> AttendCausally(const AttentionInputs& inputs) {
  const auto& [query, key, value] = inputs;
  if (query.is_cpu()) {
    auto [output, log_sum] = at::_scaled_dot_product_flash_attention_for_cpu(
        query, key, value, kNoDropout, /*is_causal=*/true);
    return {output, log_sum};
  }
  if (IsFlash(query)) {
    auto result =
        at::_scaled_dot_product_flash_attention(query, key, value, kNoDropout, /*is_causal=*/true);
    // The sequence lengths and the debug mask (2, 3, 8) belong to variants not used here.
    return {std::get<0>(result), std::get<1>(result), std::get<6>(result), std::get<7>(result)};
  }
  auto [output, log_sum, seed, offset] = at::_scaled_dot_product_efficient_attention(
      query, key, value, std::nullopt, /*compute_log_sumexp=*/true, kNoDropout, /*is_causal=*/true);
  return {output, log_sum, seed, offset};
}

// Gradients of query, key and value. `attended` is what AttendCausally() returned.
std::tuple<at::Tensor, at::Tensor, at::Tensor> AttendCausallyBackward(
    const at::Tensor& gradient, const AttentionInputs& inputs,
    const std::vector<at::Tensor>& attended) {
  const auto& [query, key, value] = inputs;
  const at::Tensor& output = attended[0];
  const at::Tensor& log_sum = attended[1];
  if (query.is_cpu()) {
    return at::_scaled_dot_product_flash_attention_for_cpu_backward(
        gradient, query, key, value, output, log_sum, kNoDropout, /*is_causal=*/true);
  }
  if (IsFlash(query)) {
    const int64_t seq = query.size(2);
    return at::_scaled_dot_product_flash_attention_backward(
        gradient, query, key, value, output, log_sum, at::Tensor(), at::Tensor(), seq, seq,
        kNoDropout, /*is_causal=*/true, attended[2], attended[3]);
  }
  auto [query_gradient, key_gradient, value_gradient, bias_gradient] =
      at::_scaled_dot_product_efficient_attention_backward(
          gradient, query, key, value, at::Tensor(), output, log_sum, attended[2], attended[3],
          kNoDropout, {true, true, true, false}, /*is_causal=*/true);
  return {query_gradient, key_gradient, value_gradient};
}

// Each head of keys or values [batch, kv_heads, seq, head_dim] once for each of the queries' that
// it serves.
at::Tensor ForEachQuery(const at::Tensor& heads, int64_t num_queries) {
  const int64_t group = num_queries / heads.size(1);
  if (group == 1) return heads;
  return heads.unsqueeze(2).expand({-1, -1, group, -1, -1}).flatten(1, 2);
}

// The sum of the gradients of these.
at::Tensor OfAllQueries(const at::Tensor& gradient, int64_t num_heads) {
  if (gradient.size(1) == num_heads) return gradient;
  return gradient.unflatten(1, {num_heads, -1}).sum(2);
}

// The CPU's kernel takes fewer heads of keys and values as they are.
AttentionInputs InputsOf(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value) {
  if (query.is_cpu()) return {query, key, value};
  return {query, ForEachQuery(key, query.size(1)), ForEachQuery(value, query.size(1))};
}

}  // namespace

DeviceModel::DeviceModel(const model::ModelConfig& config, at::Device device,
                         LaunchTurn launch_turn)
    : SegmentModel(config, device),
      launch_turn_(launch_turn),
      // Copied, as the rotary table: the host then waits for it, and so no stream has to.
      vocabulary_(at::arange(config.vocab, at::kLong).to(device)) {}

Saved DeviceModel::EmbeddingForward(const Tensors& parameters, const TokenBatch& tokens) const {
  Saved saved;
  saved.output = at::index_select(parameters[0], 0, tokens.inputs);
  return saved;
}

void DeviceModel::EmbeddingBackward(const BackwardArgs& args, Tensors* gradients) const {
  // A product with the tokens' one-hot rows: scattered additions would come in any order.
  const at::Tensor one_hot =
      at::eq(vocabulary_.unsqueeze(1), args.tokens.inputs.unsqueeze(0)).to(type_);
  if (config_.tied) {  // to what the head has left there
    (*gradients)[0].addmm_(one_hot, args.output_gradient);
  } else {
    at::mm_out((*gradients)[0], one_hot, args.output_gradient);
  }
}

// tensors: scale [T] (wide) = 1 / sqrt(mean(x^2) + epsilon), normed; more follow by segment. CUDA
// has kernels for it and for its gradients.
Saved DeviceModel::Normed(const at::Tensor& input, const at::Tensor& weight) const {
  if (!input.is_cpu()) {
    const auto [normed, scale] =
        at::_fused_rms_norm(input, weight.sizes(), weight, config_.norm_epsilon);
    Saved fused;
    fused.tensors = {scale.view({-1}), normed};
    return fused;
  }
  const at::Tensor wide = input.to(wide_);
  const at::Tensor scale = wide.square().mean(1).add_(config_.norm_epsilon).rsqrt_();
  Saved saved;
  saved.tensors = {scale, (wide * scale.unsqueeze(1) * weight.to(wide_)).to(type_)};
  return saved;
}

// With s = scale, g = gradient * weight: dx = s g - x s^3 mean(x g), plus what passes beside the
// block; dw = sum over rows of gradient * x * s.
at::Tensor DeviceModel::NormBackward(const BackwardArgs& args, const at::Tensor& gradient,
                                     at::Tensor* weight_gradient) const {
  const at::Tensor scale = args.saved.tensors[0].unsqueeze(1);
  if (!gradient.is_cpu()) {
    const at::Tensor& weight = args.parameters[0];
    auto [input_gradient, of_weight] =
        at::_fused_rms_norm_backward(gradient.contiguous(), args.input, weight.sizes(), scale,
                                     weight, {true, weight_gradient->defined()});
    if (weight_gradient->defined()) weight_gradient->copy_(of_weight);
    if (args.output_gradient.defined()) input_gradient.add_(args.output_gradient);
    return input_gradient;
  }
  const at::Tensor x = args.input.to(wide_);
  const at::Tensor incoming = gradient.to(wide_);
  if (weight_gradient->defined()) weight_gradient->copy_((incoming * x * scale).sum(0));
  const at::Tensor weighted = incoming * args.parameters[0].to(wide_);
  const at::Tensor pull = scale.pow(3) * (weighted * x).mean(1, /*keepdim=*/true);
  at::Tensor result = (weighted * scale).sub_(x * pull);
  if (args.output_gradient.defined()) result.add_(args.output_gradient);
  return result.to(type_);
}

// Turns [batch, seq, n, heads, head_dim] in place by its positions' angles; channel i turns with
// channel i + head_dim / 2. `direction` -1 is the inverse.
void DeviceModel::Turn(const at::Tensor& heads, double direction) const {
  const TurnTask task{.heads = heads.data_ptr(),
                      .table = rotary_.const_data_ptr(),
                      .direction = direction,
                      .dtype = config_.dtype,
                      .batch = heads.size(0),
                      .seq = heads.size(1),
                      .parts = heads.size(2),
                      .num_heads = heads.size(3),
                      .half = heads.size(4) / 2,
                      .batch_stride = heads.stride(0),
                      .position_stride = heads.stride(1),
                      .part_stride = heads.stride(2),
                      .head_stride = heads.stride(3)};
  if (launch_turn_ != nullptr) return launch_turn_(task, CurrentStream(heads.device()));
  WithFormat(task.dtype, [&]<typename Format>(Format) {
    for (int64_t row = 0; row < task.NumRows(); ++row) TurnRow<Format>(task, row, {});
  });
}

Saved DeviceModel::AttentionForward(const ForwardArgs& args) const {
  Saved saved = StartOf(args);
  Tensors hidden = {at::mm(saved.tensors[1], args.parameters[1].t())};
  AddHidden(SegmentKind::kAttention, args.parameters, saved.tensors[1], &hidden);
  const at::Tensor& qkv = hidden[0];
  const int64_t batch = qkv.size(0) / config_.seq;
  Turn(qkv.view({batch, config_.seq, 3, -1, config_.head_dim()}).narrow(2, 0, 2), 1);
  const std::vector<at::Tensor> attended =
      AttendCausally({Part(qkv, 0), Part(qkv, 1), Part(qkv, 2)});
  saved.output = Output(SegmentKind::kAttention, args, Flat(attended[0]));
  saved.tensors.push_back(qkv);
  saved.tensors.insert(saved.tensors.end(), attended.begin(), attended.end());
  return saved;
}

at::Tensor DeviceModel::AttentionBackward(const BackwardArgs& args, Tensors* gradients) const {
  const std::vector<at::Tensor>& tensors = args.saved.tensors;
  const at::Tensor& qkv = tensors[2];
  const std::vector<at::Tensor> attended(tensors.begin() + 3, tensors.end());
  const OutputGradient output = OutputBackward(SegmentKind::kAttention, args);
  OutputWeightBackward(SegmentKind::kAttention, args, Flat(attended[0]), output, gradients);
  const at::Tensor attended_gradient = Heads(output.of_rows);
  const auto [query, key, value] = AttendCausallyBackward(
      attended_gradient, {Part(qkv, 0), Part(qkv, 1), Part(qkv, 2)}, attended);
  // [batch, seq, 3, heads, head_dim].
  const at::Tensor heads =
      at::stack({query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)}, 2);
  Turn(heads.narrow(2, 0, 2), -1);
  const at::Tensor qkv_gradient = heads.view(qkv.sizes());
  return HiddenBackward(SegmentKind::kAttention, args, qkv_gradient, gradients);
}

// In fp64, as the CPU adds it: the mean of many values of one size.
at::Tensor DeviceModel::MeanLossOf(const at::Tensor& log_probabilities,
                                   const model::TokenBatch& tokens) const {
  if (tokens.mean_over > 0) {
    const at::Tensor counted = tokens.targets.ge(0);
    const at::Tensor targets = tokens.targets.clamp_min(0).unsqueeze(1);
    const at::Tensor rows = log_probabilities.gather(1, targets).squeeze(1).to(at::kDouble);
    return rows.mul(counted).sum().div(-tokens.mean_over).to(wide_);
  }
  const at::Tensor targets = tokens.targets.unsqueeze(1);
  return log_probabilities.gather(1, targets).to(at::kDouble).mean().neg().to(wide_);
}

at::Tensor DeviceModel::Hits(const model::TokenBatch& tokens, int64_t first, int64_t count) const {
  const at::Tensor columns = vocabulary_.narrow(0, first, count).unsqueeze(0);
  return at::eq(columns, tokens.targets.unsqueeze(1)).to(wide_);
}

at::Tensor DeviceModel::LogitsGradient(const at::Tensor& log_probabilities,
                                       const model::TokenBatch& tokens, double scale) const {
  at::Tensor gradient =
      log_probabilities.exp().sub_(Hits(tokens, 0, config_.vocab)).mul_(scale / tokens.loss_rows());
  if (tokens.mean_over > 0) gradient.mul_(tokens.targets.ge(0).unsqueeze(1));
  return gradient.to(type_);
}

void DeviceModel::Rotate(at::Tensor* heads) const {
  Turn(heads->view({-1, config_.seq, 1, heads->size(1), config_.head_dim()}), 1);
}

DeviceModel::Tensors DeviceModel::Attend(const Qkv& qkv) const {
  return AttendCausally(InputsOf(qkv.query, qkv.key, qkv.value));
}

DeviceModel::Qkv DeviceModel::AttendBackward(const at::Tensor& gradient, const Qkv& qkv,
                                             const Tensors& attended) const {
  const auto [query, key, value] =
      AttendCausallyBackward(gradient, InputsOf(qkv.query, qkv.key, qkv.value), attended);
  const int64_t num_heads = qkv.key.size(1);
  return {query, OfAllQueries(key, num_heads), OfAllQueries(value, num_heads)};
}

void DeviceModel::RotateBack(const at::Tensor& gradient, bool rotates, at::Tensor* rows) const {
  const at::Tensor by_position = gradient.transpose(1, 2);
  const at::Tensor heads = rows->view(by_position.sizes());
  heads.copy_(by_position);
  if (rotates) Turn(heads.unsqueeze(2), -1);
}

at::Tensor DeviceModel::Gated(const at::Tensor& gate, const at::Tensor& up) const {
  return at::silu(gate.to(wide_)).mul_(up).to(type_);
}

// With s = sigmoid(g): d/dg (g s) = s (1 + g (1 - s)).
void DeviceModel::GatedBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                                at::Tensor* gate_gradient, at::Tensor* up_gradient) const {
  const at::Tensor wide = gate.to(wide_);
  const at::Tensor incoming = gradient->to(wide_);
  const at::Tensor sigmoid = wide.sigmoid();
  const at::Tensor silu = wide * sigmoid;
  gate_gradient->copy_(incoming * up * sigmoid * (1 + wide - silu));
  up_gradient->copy_(incoming * silu);
  gradient->copy_(silu * up);
}

at::Tensor DeviceModel::LossInPlace(at::Tensor* logits, const model::TokenBatch& tokens) const {
  const at::Tensor log_probabilities = at::_log_softmax(logits->to(wide_), 1, false);
  logits->copy_(LogitsGradient(log_probabilities, tokens, tokens.loss_rows()));
  return MeanLossOf(log_probabilities, tokens);
}

void DeviceModel::AddLogitsOf(const at::Tensor& block, int64_t first,
                              const model::TokenBatch& tokens, model::LogitRows* rows) const {
  const at::Tensor wide = block.to(wide_);
  const at::Tensor largest = at::maximum(rows->largest, wide.amax(1));
  const at::Tensor added = wide.sub(largest.unsqueeze(1)).exp_().sum(1);
  rows->sum.mul_(rows->largest.sub_(largest).exp_()).add_(added);
  rows->largest = largest;
  rows->of_target.add_(Hits(tokens, first, block.size(1)).mul_(wide).sum(1));
}

void DeviceModel::GradientOfBlock(const at::Tensor& log_sum, int64_t first,
                                  const model::TokenBatch& tokens, double scale,
                                  at::Tensor* block) const {
  at::Tensor gradient = block->to(wide_).sub(log_sum.unsqueeze(1)).exp_();
  gradient.sub_(Hits(tokens, first, block->size(1))).mul_(scale);
  block->copy_(gradient.masked_fill_(tokens.targets.lt(0).unsqueeze(1), 0));
}

}  // namespace shardscope::cuda
