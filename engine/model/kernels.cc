#include "engine/model/kernels.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include <cmath>
#include <type_traits>
#include <vector>

#include "trace/base/check.h"

namespace shardscope::model {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Calls body with a value of the tensor's element type.
template <typename Body>
void Dispatch(const at::Tensor& tensor, const Body& body) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return body(float{});
    case at::kDouble:
      return body(double{});
    case at::kBFloat16:
      return body(c10::BFloat16{});
    default:
      TORCH_CHECK(false, "model: dtype is not fp32, bf16 or fp64");
  }
}

template <typename T>
void RmsNormRows(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor* normed,
                 at::Tensor* scale) {
  using W = Wide<T>;
  const int64_t rows = x.size(0);
  const int64_t dim = x.size(1);
  const T* weights = weight.const_data_ptr<T>();
  for (int64_t row = 0; row < rows; ++row) {
    const T* in = x.const_data_ptr<T>() + row * dim;
    T* out = normed->mutable_data_ptr<T>() + row * dim;
    W sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < dim; ++i) sum += static_cast<W>(in[i]) * static_cast<W>(in[i]);
    const W factor = 1 / std::sqrt(sum / static_cast<W>(dim) + static_cast<W>(epsilon));
    scale->mutable_data_ptr<W>()[row] = factor;
    for (int64_t i = 0; i < dim; ++i) {
      out[i] = static_cast<T>(static_cast<W>(in[i]) * factor * static_cast<W>(weights[i]));
    }
  }
}

// With s = scale, g = gradient * weight: dx = s g - x s^3 mean(x g); dw = sum over rows of
// gradient * x * s.
template <typename T>
void RmsNormBackwardRows(const RmsNormBackwardArgs& args, at::Tensor* input_gradient,
                         at::Tensor* weight_gradient) {
  using W = Wide<T>;
  const int64_t rows = args.x.size(0);
  const int64_t dim = args.x.size(1);
  const T* weights = args.weight.const_data_ptr<T>();
  const T* residuals = args.residual.defined() ? args.residual.const_data_ptr<T>() : nullptr;
  std::vector<W> weight_sums(static_cast<size_t>(dim), W{0});
  W* sums = weight_sums.data();
  for (int64_t row = 0; row < rows; ++row) {
    const T* gradient = args.gradient.const_data_ptr<T>() + row * dim;
    const T* in = args.x.const_data_ptr<T>() + row * dim;
    T* out = input_gradient->mutable_data_ptr<T>() + row * dim;
    const W scale = args.scale.const_data_ptr<W>()[row];
    W dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < dim; ++i) {
      dot += static_cast<W>(gradient[i]) * static_cast<W>(weights[i]) * static_cast<W>(in[i]);
    }
    const W pull = scale * scale * scale * dot / static_cast<W>(dim);
    for (int64_t i = 0; i < dim; ++i) {
      const W incoming = static_cast<W>(gradient[i]);
      const W value = static_cast<W>(in[i]);
      sums[i] += incoming * value * scale;
      const W beside = residuals == nullptr ? W{0} : static_cast<W>(residuals[row * dim + i]);
      out[i] =
          static_cast<T>(beside + incoming * static_cast<W>(weights[i]) * scale - value * pull);
    }
  }
  T* result = weight_gradient->mutable_data_ptr<T>();
  for (int64_t i = 0; i < dim; ++i) result[i] = static_cast<T>(sums[i]);
}

// Rotates one head by the angles of one position; `direction` -1 is the inverse.
template <typename T>
void RotateHead(const Wide<T>* table, int64_t half, Wide<T> direction, const T* in, T* out) {
  using W = Wide<T>;
  for (int64_t i = 0; i < half; ++i) {
    const W cosine = table[i];
    const W sine = direction * table[half + i];
    const W first = static_cast<W>(in[i]);
    const W second = static_cast<W>(in[half + i]);
    out[i] = static_cast<T>(first * cosine - second * sine);
    out[half + i] = static_cast<T>(first * sine + second * cosine);
  }
}

template <typename T>
void RotateBackRows(const at::Tensor& table, const at::Tensor& source, int64_t part,
                    at::Tensor* qkv_gradient) {
  const int64_t batch = source.size(0), heads = source.size(1), seq = source.size(2);
  const int64_t head_dim = source.size(3);
  const int64_t half = head_dim / 2;
  TORCH_CHECK(source.stride(3) == 1, "model: attention gradient has strided channels");
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < seq; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        const T* in = source.const_data_ptr<T>() + b * source.stride(0) + h * source.stride(1) +
                      s * source.stride(2);
        T* out = qkv_gradient->mutable_data_ptr<T>() +
                 (((b * seq + s) * 3 + part) * heads + h) * head_dim;
        if (part == 2) {
          for (int64_t i = 0; i < head_dim; ++i) out[i] = in[i];
        } else {
          const Wide<T>* angles = table.const_data_ptr<Wide<T>>() + s * 2 * half;
          RotateHead<T>(angles, half, -1, in, out);
        }
      }
    }
  }
}

}  // namespace

at::ScalarType WideType(at::ScalarType type) { return type == at::kDouble ? type : at::kFloat; }

void RmsNorm(const at::Tensor& x, const at::Tensor& weight, double epsilon, at::Tensor* normed,
             at::Tensor* scale) {
  Dispatch(x, [&](auto type) { RmsNormRows<decltype(type)>(x, weight, epsilon, normed, scale); });
}

void RmsNormBackward(const RmsNormBackwardArgs& args, at::Tensor* input_gradient,
                     at::Tensor* weight_gradient) {
  Dispatch(args.x, [&](auto type) {
    RmsNormBackwardRows<decltype(type)>(args, input_gradient, weight_gradient);
  });
}

at::Tensor RotaryTable(int64_t seq, int64_t head_dim, at::ScalarType wide) {
  const int64_t half = head_dim / 2;
  at::Tensor table = at::empty({seq, 2, half}, wide);
  Dispatch(table, [&](auto type) {
    using T = decltype(type);
    T* out = table.mutable_data_ptr<T>();
    for (int64_t s = 0; s < seq; ++s) {
      for (int64_t i = 0; i < half; ++i) {
        const double power = static_cast<double>(2 * i) / static_cast<double>(head_dim);
        const double angle = static_cast<double>(s) * std::pow(10000.0, -power);
        out[s * 2 * half + i] = static_cast<T>(std::cos(angle));
        out[s * 2 * half + half + i] = static_cast<T>(std::sin(angle));
      }
    }
  });
  return table;
}

void RotateInPlace(const at::Tensor& table, at::Tensor* qkv) {
  const int64_t tokens = qkv->size(0), heads = qkv->size(2), head_dim = qkv->size(3);
  const int64_t seq = table.size(0), half = table.size(2);
  Dispatch(*qkv, [&](auto type) {
    using T = decltype(type);
    for (int64_t t = 0; t < tokens; ++t) {
      const Wide<T>* angles = table.const_data_ptr<Wide<T>>() + t % seq * 2 * half;
      T* heads_begin = qkv->mutable_data_ptr<T>() + t * 3 * heads * head_dim;
      // Queries and keys of a token lie side by side: 2 * heads heads.
      for (int64_t h = 0; h < 2 * heads; ++h) {
        T* head = heads_begin + h * head_dim;
        RotateHead<T>(angles, half, 1, head, head);
      }
    }
  });
}

void RotateBack(const at::Tensor& table, const QkvGradients& gradients, at::Tensor* qkv_gradient) {
  Dispatch(*qkv_gradient, [&](auto type) {
    using T = decltype(type);
    RotateBackRows<T>(table, gradients.query, 0, qkv_gradient);
    RotateBackRows<T>(table, gradients.key, 1, qkv_gradient);
    RotateBackRows<T>(table, gradients.value, 2, qkv_gradient);
  });
}

void EmbeddingRows(const at::Tensor& weight, const int64_t* tokens, at::Tensor* output) {
  const int64_t rows = output->size(0), dim = output->size(1);
  Dispatch(weight, [&](auto type) {
    using T = decltype(type);
    for (int64_t t = 0; t < rows; ++t) {
      const T* in = weight.const_data_ptr<T>() + tokens[t] * dim;
      std::copy(in, in + dim, output->mutable_data_ptr<T>() + t * dim);
    }
  });
}

void EmbeddingBackward(const at::Tensor& gradient, const int64_t* tokens,
                       at::Tensor* weight_gradient) {
  const int64_t rows = gradient.size(0), dim = gradient.size(1);
  Dispatch(gradient, [&](auto type) {
    using T = decltype(type);
    std::vector<Wide<T>> sums(static_cast<size_t>(weight_gradient->numel()), Wide<T>{0});
    for (int64_t t = 0; t < rows; ++t) {
      const T* in = gradient.const_data_ptr<T>() + t * dim;
      Wide<T>* out = sums.data() + tokens[t] * dim;
      for (int64_t i = 0; i < dim; ++i) out[i] += static_cast<Wide<T>>(in[i]);
    }
    T* result = weight_gradient->mutable_data_ptr<T>();
    for (size_t i = 0; i < sums.size(); ++i) result[i] = static_cast<T>(sums[i]);
  });
}

double MeanLoss(const at::Tensor& log_probabilities, const int64_t* targets) {
  const int64_t rows = log_probabilities.size(0), width = log_probabilities.size(1);
  double sum = 0;
  Dispatch(log_probabilities, [&](auto type) {
    using T = decltype(type);
    const T* values = log_probabilities.const_data_ptr<T>();
    for (int64_t t = 0; t < rows; ++t) {
      sum -= static_cast<double>(values[t * width + targets[t]]);
    }
  });
  return sum / static_cast<double>(rows);
}

void LossBackward(const at::Tensor& log_probabilities, const int64_t* targets, double scale,
                  at::Tensor* logits_gradient) {
  const int64_t rows = log_probabilities.size(0), width = log_probabilities.size(1);
  Dispatch(*logits_gradient, [&](auto type) {
    using T = decltype(type);
    using W = Wide<T>;
    const W* values = log_probabilities.const_data_ptr<W>();
    T* out = logits_gradient->mutable_data_ptr<T>();
    const W share = static_cast<W>(scale) / static_cast<W>(rows);
    for (int64_t t = 0; t < rows; ++t) {
      for (int64_t i = 0; i < width; ++i) {
        const W hit = i == targets[t] ? W{1} : W{0};
        out[t * width + i] = static_cast<T>((std::exp(values[t * width + i]) - hit) * share);
      }
    }
  });
}

}  // namespace shardscope::model
