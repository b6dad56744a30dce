#include "engine/model/reference_model.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "engine/model/initialize.h"
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

// x: [batch, heads, seq, head_dim].
at::Tensor Rotate(const at::Tensor& x) {
  const int64_t seq = x.size(2), head_dim = x.size(3), half = head_dim / 2;
  const at::Tensor positions = at::arange(seq, at::kDouble);
  const at::Tensor frequencies =
      (at::arange(half, at::kDouble) * (-2 * std::log(10000.0) / static_cast<double>(head_dim)))
          .exp();
  const at::Tensor angles = at::outer(positions, frequencies);
  const at::Tensor cosine = angles.cos().to(Wide(x));
  const at::Tensor sine = angles.sin().to(Wide(x));
  const at::Tensor first = x.slice(3, 0, half), second = x.slice(3, half);
  return at::cat({first * cosine - second * sine, first * sine + second * cosine}, 3)
      .to(x.scalar_type());
}

at::Tensor Attention(const ModelConfig& config, const at::Tensor& qkv) {
  const auto parts = qkv.chunk(3, -1);
  const auto split = [&](const at::Tensor& part) {
    return part.view({part.size(0), config.seq, config.heads, config.head_dim()}).transpose(1, 2);
  };
  const at::Tensor query = Rotate(split(parts[0])), key = Rotate(split(parts[1]));
  const at::Tensor scores =
      at::matmul(query, key.transpose(2, 3)) / std::sqrt(static_cast<double>(config.head_dim()));
  const at::Tensor future = at::ones({config.seq, config.seq}, at::kBool).triu(1);
  const at::Tensor masked = scores.masked_fill(future, -std::numeric_limits<double>::infinity());
  const at::Tensor attended = at::matmul(at::softmax(masked, -1), split(parts[2]));
  return attended.transpose(1, 2).reshape({-1, config.seq, config.dim});
}

}  // namespace

std::vector<plan::Parameter> AllParameters(const ModelConfig& config) {
  std::vector<plan::Parameter> all;
  for (int64_t segment = 0; segment < NumSegments(config); ++segment) {
    for (plan::Parameter& parameter : ParametersOf(config, segment)) {
      all.push_back(std::move(parameter));
    }
  }
  return all;
}

ParameterMap InitialParameters(const ModelConfig& config, plan::DType dtype, uint64_t seed) {
  ParameterMap parameters;
  for (const plan::Parameter& parameter : AllParameters(config)) {
    const int64_t elements = plan::NumElements(parameter.shape);
    const std::vector<double> values = InitialValues(config, parameter, seed, 0, elements);
    at::Tensor tensor = at::ones(parameter.shape, at::kDouble);
    std::memcpy(tensor.mutable_data_ptr<double>(), values.data(), values.size() * sizeof(double));
    parameters[parameter.name] = tensor.to(ScalarTypeOf(dtype));
  }
  return parameters;
}

at::Tensor ReferenceLoss(const ModelConfig& config, const ParameterMap& parameters,
                         const at::Tensor& samples) {
  const auto norm = [&](const at::Tensor& x, const at::Tensor& weight) {
    return Norm(x, weight, config.norm_epsilon);
  };
  const auto weight = [&](const std::string& name) {
    return parameters.at(name).to(ScalarTypeOf(config.dtype));
  };
  const at::Tensor inputs = samples.slice(1, 0, config.seq);
  const at::Tensor targets = samples.slice(1, 1);
  at::Tensor x = at::embedding(weight("embedding.weight"), inputs);
  for (int64_t block = 0; block < config.layers; ++block) {
    const std::string attention = "block" + std::to_string(block) + ".attention.";
    const std::string mlp = "block" + std::to_string(block) + ".mlp.";
    const at::Tensor qkv =
        at::linear(norm(x, weight(attention + "norm.weight")), weight(attention + "qkv.weight"));
    x = x + at::linear(Attention(config, qkv), weight(attention + "projection.weight"));
    const at::Tensor hidden =
        at::gelu(at::linear(norm(x, weight(mlp + "norm.weight")), weight(mlp + "up.weight")));
    x = x + at::linear(hidden, weight(mlp + "down.weight"));
  }
  const at::Tensor logits = at::linear(norm(x, weight("head.norm.weight")), weight("head.weight"));
  return at::cross_entropy_loss(logits.to(Wide(logits)).flatten(0, 1), targets.flatten());
}

}  // namespace shardscope::model
