#include "engine/model/reference_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/softmax.h>
#include <ATen/ops/where.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "engine/model/segments.h"

namespace shardscope::model {
namespace {

at::ScalarType Wide(const at::Tensor& tensor) {
  return tensor.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
}

at::Tensor Norm(const at::Tensor& x, const at::Tensor& weight, double epsilon) {
  const at::Tensor wide = x.to(Wide(x));
  const at::Tensor scale = at::rsqrt(wide.pow(2).mean(-1, true) + epsilon);
  return (wide * scale * weight.to(wide.scalar_type())).to(x.scalar_type());
}

// Frequencies in fp32, and the slower ones of Llama 3.1 (transformers, modeling_rope_utils.py).
at::Tensor LlamaFrequencies(const ModelConfig& config) {
  const at::Tensor powers =
      at::arange(0, config.head_dim(), 2, at::kDouble) / static_cast<double>(config.head_dim());
  const at::Tensor frequencies = (powers * -std::log(config.rope_theta)).exp().to(at::kFloat);
  if (!config.rope_scaling) return frequencies;
  const RopeScaling& scaling = *config.rope_scaling;
  const at::Tensor wide = frequencies.to(at::kDouble);
  const at::Tensor turns = static_cast<double>(scaling.original_seq) * wide / (2 * M_PI);
  const at::Tensor kept =
      ((turns - scaling.low_freq_factor) / (scaling.high_freq_factor - scaling.low_freq_factor))
          .clamp(0, 1);
  return ((1 - kept) * wide / scaling.factor + kept * wide).to(at::kFloat);
}

// Of positions and channels, [seq, head_dim / 2].
at::Tensor Angles(const ModelConfig& config) {
  const int64_t head_dim = config.head_dim(), half = head_dim / 2;
  if (config.kind == ModelKind::kLlama) {
    return at::outer(at::arange(config.seq, at::kFloat), LlamaFrequencies(config)).to(at::kDouble);
  }
  const at::Tensor positions = at::arange(config.seq, at::kDouble);
  const at::Tensor frequencies =
      (at::arange(half, at::kDouble) *
       (-2 * std::log(config.rope_theta) / static_cast<double>(head_dim)))
          .exp();
  return at::outer(positions, frequencies);
}

// x: [batch, heads, seq, head_dim].
at::Tensor Rotate(const ModelConfig& config, const at::Tensor& x) {
  const int64_t half = x.size(3) / 2;
  const at::Tensor angles = Angles(config);
  const at::Tensor cosine = angles.cos().to(Wide(x));
  const at::Tensor sine = angles.sin().to(Wide(x));
  const at::Tensor first = x.slice(3, 0, half), second = x.slice(3, half);
  return at::cat({first * cosine - second * sine, first * sine + second * cosine}, 3)
      .to(x.scalar_type());
}

// Of queries, keys and values, each [batch, seq, its heads * head_dim].
at::Tensor Attention(const ModelConfig& config, const std::vector<at::Tensor>& parts) {
  const auto split = [&](const at::Tensor& part) {
    return part.view({part.size(0), config.seq, -1, config.head_dim()}).transpose(1, 2);
  };
  const int64_t group = config.heads / config.num_kv_heads();
  const at::Tensor query = Rotate(config, split(parts[0]));
  const at::Tensor key = Rotate(config, split(parts[1])).repeat_interleave(group, 1);
  const at::Tensor value = split(parts[2]).repeat_interleave(group, 1);
  const at::Tensor scores =
      at::matmul(query, key.transpose(2, 3)) / std::sqrt(static_cast<double>(config.head_dim()));
  const at::Tensor future = at::ones({config.seq, config.seq}, at::kBool).triu(1);
  const at::Tensor masked = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  const at::Tensor attended = at::matmul(at::softmax(masked, -1), value);
  return attended.transpose(1, 2).reshape({-1, config.seq, config.heads * config.head_dim()});
}

// The layers of a block, which have their parameters by name.
using Weight = std::function<at::Tensor(const std::string& name)>;

// With its adapter where it has one (peft, tuners/lora/layer.py: Linear.forward).
at::Tensor Linear(const ModelConfig& config, const Weight& weight, const std::string& name,
                  const at::Tensor& x) {
  at::Tensor y = at::linear(x, weight(name + ".weight"));
  const Lora& lora = config.lora;
  if (std::ranges::find(lora.targets, name) == lora.targets.end()) return y;
  const at::Tensor inner = at::linear(x, weight(name + ".lora_A.weight"));
  return y + at::linear(inner, weight(name + ".lora_B.weight")) * lora.scale();
}

at::Tensor AttentionLayer(const ModelConfig& config, const Weight& weight, const at::Tensor& x) {
  if (config.kind == ModelKind::kGpt) {
    const auto parts = Linear(config, weight, "qkv", x).chunk(3, -1);
    return Linear(config, weight, "projection", Attention(config, parts));
  }
  std::vector<at::Tensor> parts;
  for (const std::string name : {"q", "k", "v"}) {
    parts.push_back(Linear(config, weight, name, x));
    if (config.qkv_bias) parts.back() = parts.back() + weight(name + ".bias");
  }
  return Linear(config, weight, "o", Attention(config, parts));
}

at::Tensor MlpLayer(const ModelConfig& config, const Weight& weight, const at::Tensor& x) {
  const at::Tensor up = Linear(config, weight, "up", x);
  if (config.kind == ModelKind::kGpt) return Linear(config, weight, "down", at::gelu(up));
  const at::Tensor gate = Linear(config, weight, "gate", x);
  return Linear(config, weight, "down", gate * at::sigmoid(gate) * up);
}

}  // namespace

ParameterMap InitialParameters(const ModelConfig& config, plan::DType dtype,
                               const ParameterSource& source) {
  ParameterMap parameters;
  for (const plan::Parameter& parameter : AllParameters(config)) {
    const at::Tensor tensor = at::empty(parameter.shape, ScalarTypeOf(dtype));
    source.Read(parameter, 0, tensor);
    parameters[parameter.name] = tensor;
  }
  return parameters;
}

ParameterMap InitialParameters(const ModelConfig& config, plan::DType dtype, uint64_t seed) {
  return InitialParameters(config, dtype, DrawnParameters(config, seed));
}

at::Tensor ReferenceLogits(const ModelConfig& config, const ParameterMap& parameters,
                           const at::Tensor& inputs) {
  const auto weight = [&](const std::string& name) {
    return parameters.at(name).to(ScalarTypeOf(config.dtype));
  };
  const auto of = [&](const std::string& layer) {
    return [&weight, layer](const std::string& name) { return weight(layer + name); };
  };
  const auto norm = [&](const at::Tensor& x, const Weight& layer) {
    return Norm(x, layer("norm.weight"), config.norm_epsilon);
  };
  at::Tensor x = at::embedding(weight(kEmbeddingWeight), inputs);
  for (int64_t block = 0; block < config.layers; ++block) {
    const Weight attention = of("block" + std::to_string(block) + ".attention.");
    const Weight mlp = of("block" + std::to_string(block) + ".mlp.");
    x = x + AttentionLayer(config, attention, norm(x, attention));
    x = x + MlpLayer(config, mlp, norm(x, mlp));
  }
  return at::linear(norm(x, of("head.")), weight(config.tied ? kEmbeddingWeight : "head.weight"));
}

at::Tensor ReferenceLoss(const ModelConfig& config, const ParameterMap& parameters,
                         const at::Tensor& samples) {
  // A token that the loss leaves out stands there as ~id.
  const at::Tensor left_out = samples.lt(0);
  const at::Tensor inputs = at::where(left_out, samples.bitwise_not(), samples);
  const at::Tensor targets = samples.masked_fill(left_out, kNoTarget).slice(1, 1);
  const at::Tensor logits = ReferenceLogits(config, parameters, inputs.slice(1, 0, config.seq));
  return at::cross_entropy_loss(logits.to(Wide(logits)).flatten(0, 1), targets.flatten());
}

}  // namespace shardscope::model
