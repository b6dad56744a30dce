#include "engine/model/kernels.h"

#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <numbers>
#include <type_traits>
#include <vector>

#include "engine/plan/formats.h"

// A loop that is compiled for AVX2 and AVX-512 too; the one for this CPU is chosen as the program
// is loaded. Each gives the same bits: it adds up nothing, and products are rounded before they are
// added to (CMakeLists.txt).
#if defined(__x86_64__) && !defined(__clang__) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define SHARDSCOPE_FOR_EACH_CPU \
  __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define SHARDSCOPE_FOR_EACH_CPU
#endif

namespace shardscope::model {
namespace {

template <typename T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

// LibTorch's own conversions have branches, with which loops are not vectorised; these give the
// same.
inline float Widened(float value) { return value; }
inline double Widened(double value) { return value; }
inline float Widened(c10::BFloat16 value) { return plan::Bf16ToFloat(value.x); }
inline float Widened(c10::Half value) { return plan::Fp16ToFloat(value.x); }
template <typename T>
inline T Narrowed(Wide<T> value) {
  if constexpr (std::is_same_v<T, c10::BFloat16>) {
    return T(plan::FloatToBf16(value), T::from_bits());
  } else if constexpr (std::is_same_v<T, c10::Half>) {
    return T(plan::FloatToFp16(value), T::from_bits());
  } else {
    return value;
  }
}

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
    case at::kHalf:
      return body(c10::Half{});
    default:
      TORCH_CHECK(false, "model: dtype is not fp32, bf16, fp16 or fp64");
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
    for (int64_t i = 0; i < dim; ++i) sum += Widened(in[i]) * Widened(in[i]);
    const W factor = 1 / std::sqrt(sum / static_cast<W>(dim) + static_cast<W>(epsilon));
    scale->mutable_data_ptr<W>()[row] = factor;
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) {
      out[i] = Narrowed<T>(Widened(in[i]) * factor * Widened(weights[i]));
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
      dot += Widened(gradient[i]) * Widened(weights[i]) * Widened(in[i]);
    }
    const W pull = scale * scale * scale * dot / static_cast<W>(dim);
#pragma omp simd
    for (int64_t i = 0; i < dim; ++i) {
      const W incoming = Widened(gradient[i]);
      const W value = Widened(in[i]);
      sums[i] += incoming * value * scale;
      const W beside = residuals == nullptr ? W{0} : Widened(residuals[row * dim + i]);
      out[i] = Narrowed<T>(beside + incoming * Widened(weights[i]) * scale - value * pull);
    }
  }
  if (!weight_gradient->defined()) return;  // frozen
  T* result = weight_gradient->mutable_data_ptr<T>();
  for (int64_t i = 0; i < dim; ++i) result[i] = Narrowed<T>(sums[i]);
}

// Rotates one head by the angles of one position; `direction` -1 is the inverse.
template <typename T>
void RotateHead(const Wide<T>* table, int64_t half, Wide<T> direction, const T* in, T* out) {
  using W = Wide<T>;
#pragma omp simd
  for (int64_t i = 0; i < half; ++i) {
    const W cosine = table[i];
    const W sine = direction * table[half + i];
    const W first = Widened(in[i]);
    const W second = Widened(in[half + i]);
    out[i] = Narrowed<T>(first * cosine - second * sine);
    out[half + i] = Narrowed<T>(first * sine + second * cosine);
  }
}

// As transformers computes them, in fp32: _compute_default_rope_parameters() and
// _compute_llama3_parameters().
std::vector<float> LlamaFrequencies(const ModelConfig& config) {
  std::vector<float> frequencies;
  for (int64_t i = 0; i < config.head_dim(); i += 2) {
    const double power = static_cast<double>(i) / static_cast<double>(config.head_dim());
    const auto frequency = static_cast<float>(std::pow(config.rope_theta, -power));
    frequencies.push_back(frequency);
    if (!config.rope_scaling) continue;
    const RopeScaling& scaling = *config.rope_scaling;
    const auto original = static_cast<double>(scaling.original_seq);
    const double wave_length = 2 * std::numbers::pi / frequency;
    if (wave_length < original / scaling.high_freq_factor) continue;
    double kept = 0;  // the part that is not slowed down
    if (wave_length <= original / scaling.low_freq_factor) {
      kept = (original / wave_length - scaling.low_freq_factor) /
             (scaling.high_freq_factor - scaling.low_freq_factor);
    }
    frequencies.back() =
        static_cast<float>((1 - kept) * frequency / scaling.factor + kept * frequency);
  }
  return frequencies;
}

template <typename T>
void HeadsToRowsOf(const at::Tensor& table, const at::Tensor& gradient, const at::Tensor& rows) {
  const int64_t batch = gradient.size(0), heads = gradient.size(1), seq = gradient.size(2);
  const int64_t head_dim = gradient.size(3);
  const int64_t half = head_dim / 2;
  TORCH_CHECK(gradient.stride(3) == 1, "model: attention gradient has strided channels");
  T* out_begin = rows.mutable_data_ptr<T>();
  for (int64_t b = 0; b < batch; ++b) {
    for (int64_t s = 0; s < seq; ++s) {
      for (int64_t h = 0; h < heads; ++h) {
        const T* in = gradient.const_data_ptr<T>() + b * gradient.stride(0) +
                      h * gradient.stride(1) + s * gradient.stride(2);
        T* out = out_begin + (b * seq + s) * rows.stride(0) + h * head_dim;
        if (table.defined()) {
          RotateHead<T>(table.const_data_ptr<Wide<T>>() + s * 2 * half, half, -1, in, out);
        } else {
          std::copy(in, in + head_dim, out);
        }
      }
    }
  }
}

// exp(x), to 2 ulp, for x <= 88 (fp32): loops with it vectorise, which those with std::exp do not.
// Range reduction and polynomial as in Cephes' expf.
inline float FastExp(float x) {
  constexpr float kToWhole = 0x1.8p23F;  // added and taken away, it rounds to a whole number
  x = std::max(x, -87.0F);
  const float whole = (x * 1.44269504088896341F + kToWhole) - kToWhole;
  float rest = x - whole * 0.693359375F;
  rest -= whole * -2.12194440e-4F;
  float power = 1.9875691500e-4F;
  power = power * rest + 1.3981999507e-3F;
  power = power * rest + 8.3334519073e-3F;
  power = power * rest + 4.1665795894e-2F;
  power = power * rest + 1.6666665459e-1F;
  power = power * rest + 5.0000001201e-1F;
  power = power * rest * rest + rest + 1.0F;
  const int32_t exponent = (static_cast<int32_t>(whole) + 127) << 23;
  return power * std::bit_cast<float>(exponent);
}
inline double FastExp(double x) { return std::exp(x); }

template <typename W>
inline W Sigmoid(W x) {
  return 1 / (1 + FastExp(std::clamp(-x, W{-80}, W{80})));
}

template <typename T>
SHARDSCOPE_FOR_EACH_CPU void SwiGluOf(const T* gates, const T* ups, int64_t count, T* products) {
  using W = Wide<T>;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const W value = Widened(gates[i]);
    products[i] = Narrowed<T>(value * Sigmoid(value) * Widened(ups[i]));
  }
}

// With s = sigmoid(g): d/dg (g s) = s (1 + g (1 - s)). Where gradients were, products are then.
template <typename T>
SHARDSCOPE_FOR_EACH_CPU void SwiGluBackwardOf(const T* gates, const T* ups, int64_t count,
                                              T* in_and_out, T* to_gate, T* to_up) {
  using W = Wide<T>;
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    const W value = Widened(gates[i]);
    const W beside = Widened(ups[i]);
    const W incoming = Widened(in_and_out[i]);
    const W sigmoid = Sigmoid(value);
    const W silu = value * sigmoid;
    to_gate[i] = Narrowed<T>(incoming * beside * sigmoid * (1 + value - silu));
    to_up[i] = Narrowed<T>(incoming * silu);
    in_and_out[i] = Narrowed<T>(silu * beside);
  }
}

// Of of(0) to of(width - 1), in lanes that are named here: the lanes that a compiler makes of one
// sum may begin where memory is aligned, and the last bit with it.
template <typename W, typename Of>
W SumInLanes(int64_t width, const Of& of) {
  constexpr int64_t kLanes = 16;
  std::array<W, kLanes> sums = {};
  const int64_t rest = width % kLanes;
  for (int64_t from = 0; from < width - rest; from += kLanes) {
#pragma omp simd
    for (int64_t lane = 0; lane < kLanes; ++lane)
      sums[static_cast<size_t>(lane)] += of(from + lane);
  }
  for (int64_t i = width - rest; i < width; ++i) sums[static_cast<size_t>(i % kLanes)] += of(i);
  W sum = 0;
  for (const W of_lane : sums) sum += of_lane;
  return sum;
}

// The loss of one row of logits, as wide numbers; the row becomes probabilities less the target.
template <typename W>
double CrossEntropyRow(int64_t width, int64_t target, W* row) {
  if (target < 0) {
    std::fill_n(row, width, W{0});
    return 0;
  }
  W largest = row[0];
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < width; ++i) largest = std::max(largest, row[i]);
  const double of_target = static_cast<double>(row[target]) - static_cast<double>(largest);
  const W sum = SumInLanes<W>(width, [=](int64_t i) { return row[i] = FastExp(row[i] - largest); });
  const W share = 1 / sum;
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) row[i] *= share;
  row[target] -= 1;
  return std::log(static_cast<double>(sum)) - of_target;
}

// The row of a block in the wide type: itself, or a copy in `room`.
template <typename T>
auto WideRow(T* row, int64_t width, std::vector<Wide<std::remove_const_t<T>>>* room) {
  using W = Wide<std::remove_const_t<T>>;
  if constexpr (std::is_same_v<std::remove_const_t<T>, W>) {
    return row;
  } else {
    room->resize(static_cast<size_t>(width));
    for (int64_t i = 0; i < width; ++i) (*room)[static_cast<size_t>(i)] = Widened(row[i]);
    return room->data();
  }
}

// What adding a row's logits makes of its largest and sum.
template <typename W>
void AddLogitsOfRow(const W* row, int64_t width, W* largest, W* sum) {
  W most = *largest;
#pragma omp simd reduction(max : most)
  for (int64_t i = 0; i < width; ++i) most = std::max(most, row[i]);
  const W added = SumInLanes<W>(width, [=](int64_t i) { return FastExp(row[i] - most); });
  *sum = *sum * FastExp(*largest - most) + added;
  *largest = most;
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

at::Tensor RotaryTable(const ModelConfig& config, at::ScalarType wide) {
  const int64_t head_dim = config.head_dim();
  const int64_t half = head_dim / 2;
  const std::vector<float> frequencies =
      config.kind == ModelKind::kLlama ? LlamaFrequencies(config) : std::vector<float>();
  const auto angle_of = [&](int64_t s, int64_t i) {
    if (!frequencies.empty()) {
      return static_cast<double>(static_cast<float>(s) * frequencies[static_cast<size_t>(i)]);
    }
    const double power = static_cast<double>(2 * i) / static_cast<double>(head_dim);
    return static_cast<double>(s) * std::pow(config.rope_theta, -power);
  };
  at::Tensor table = at::empty({config.seq, 2, half}, wide);
  Dispatch(table, [&](auto type) {
    using T = decltype(type);
    T* out = table.mutable_data_ptr<T>();
    for (int64_t s = 0; s < config.seq; ++s) {
      for (int64_t i = 0; i < half; ++i) {
        const double angle = angle_of(s, i);
        out[s * 2 * half + i] = static_cast<T>(std::cos(angle));
        out[s * 2 * half + half + i] = static_cast<T>(std::sin(angle));
      }
    }
  });
  return table;
}

void RotateInPlace(const at::Tensor& table, int64_t count, at::Tensor* heads) {
  const int64_t tokens = heads->size(0), head_dim = heads->size(2);
  const int64_t seq = table.size(0), half = table.size(2);
  Dispatch(*heads, [&](auto type) {
    using T = decltype(type);
    for (int64_t t = 0; t < tokens; ++t) {
      const Wide<T>* angles = table.const_data_ptr<Wide<T>>() + t % seq * 2 * half;
      T* heads_begin = heads->mutable_data_ptr<T>() + t * heads->stride(0);
      for (int64_t h = 0; h < count; ++h) {
        T* head = heads_begin + h * head_dim;
        RotateHead<T>(angles, half, 1, head, head);
      }
    }
  });
}

void HeadsToRows(const at::Tensor& table, const at::Tensor& gradient, const at::Tensor& rows) {
  Dispatch(rows, [&](auto type) { HeadsToRowsOf<decltype(type)>(table, gradient, rows); });
}

void SwiGlu(const at::Tensor& gate, const at::Tensor& up, at::Tensor* product) {
  Dispatch(gate, [&](auto type) {
    using T = decltype(type);
    SwiGluOf(gate.const_data_ptr<T>(), up.const_data_ptr<T>(), gate.numel(),
             product->mutable_data_ptr<T>());
  });
}

void SwiGluBackward(const at::Tensor& gate, const at::Tensor& up, at::Tensor* gradient,
                    at::Tensor* gate_gradient, at::Tensor* up_gradient) {
  Dispatch(gate, [&](auto type) {
    using T = decltype(type);
    SwiGluBackwardOf(gate.const_data_ptr<T>(), up.const_data_ptr<T>(), gate.numel(),
                     gradient->mutable_data_ptr<T>(), gate_gradient->mutable_data_ptr<T>(),
                     up_gradient->mutable_data_ptr<T>());
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

void EmbeddingBackward(const at::Tensor& gradient, const int64_t* tokens, bool adds,
                       at::Tensor* weight_gradient) {
  const int64_t rows = gradient.size(0), dim = gradient.size(1);
  Dispatch(gradient, [&](auto type) {
    using T = decltype(type);
    std::vector<Wide<T>> sums(static_cast<size_t>(weight_gradient->numel()), Wide<T>{0});
    for (int64_t t = 0; t < rows; ++t) {
      const T* in = gradient.const_data_ptr<T>() + t * dim;
      Wide<T>* out = sums.data() + tokens[t] * dim;
      for (int64_t i = 0; i < dim; ++i) out[i] += Widened(in[i]);
    }
    T* result = weight_gradient->mutable_data_ptr<T>();
    for (size_t i = 0; i < sums.size(); ++i) {
      if (adds) sums[i] += Widened(result[i]);
      result[i] = Narrowed<T>(sums[i]);
    }
  });
}

double MeanLoss(const at::Tensor& log_probabilities, const int64_t* targets, double mean_over) {
  const int64_t rows = log_probabilities.size(0), width = log_probabilities.size(1);
  double sum = 0;
  Dispatch(log_probabilities, [&](auto type) {
    using T = decltype(type);
    const T* values = log_probabilities.const_data_ptr<T>();
    for (int64_t t = 0; t < rows; ++t) {
      if (targets[t] >= 0) sum -= static_cast<double>(values[t * width + targets[t]]);
    }
  });
  return sum / mean_over;
}

void LossBackward(const at::Tensor& log_probabilities, const int64_t* targets,
                  const LossScale& scale, at::Tensor* logits_gradient) {
  const int64_t rows = log_probabilities.size(0), width = log_probabilities.size(1);
  Dispatch(*logits_gradient, [&](auto type) {
    using T = decltype(type);
    using W = Wide<T>;
    const W* values = log_probabilities.const_data_ptr<W>();
    T* out = logits_gradient->mutable_data_ptr<T>();
    const W share = static_cast<W>(scale.scale) / static_cast<W>(scale.mean_over);
    for (int64_t t = 0; t < rows; ++t) {
      if (targets[t] < 0) {
        std::fill_n(out + t * width, width, T{0});
        continue;
      }
      for (int64_t i = 0; i < width; ++i) {
        const W hit = i == targets[t] ? W{1} : W{0};
        out[t * width + i] = Narrowed<T>((std::exp(values[t * width + i]) - hit) * share);
      }
    }
  });
}

double CrossEntropy(const int64_t* targets, at::Tensor* logits) {
  const int64_t rows = logits->size(0), width = logits->size(1);
  double sum = 0;
  Dispatch(*logits, [&](auto type) {
    using T = decltype(type);
    using W = Wide<T>;
    T* values = logits->mutable_data_ptr<T>();
    if constexpr (std::is_same_v<T, W>) {
      for (int64_t t = 0; t < rows; ++t) {
        sum += CrossEntropyRow(width, targets[t], values + t * width);
      }
    } else {
      std::vector<W> wide(static_cast<size_t>(width));
      for (int64_t t = 0; t < rows; ++t) {
        T* row = values + t * width;
        for (int64_t i = 0; i < width; ++i) wide[static_cast<size_t>(i)] = Widened(row[i]);
        sum += CrossEntropyRow(width, targets[t], wide.data());
        for (int64_t i = 0; i < width; ++i) row[i] = Narrowed<T>(wide[static_cast<size_t>(i)]);
      }
    }
  });
  return sum;
}

void AddLogits(const at::Tensor& block, int64_t first, const int64_t* targets, LogitRows* rows) {
  const int64_t width = block.size(1);
  Dispatch(block, [&](auto type) {
    using T = decltype(type);
    using W = Wide<T>;
    std::vector<W> room;
    for (int64_t t = 0; t < block.size(0); ++t) {
      const T* in = block.const_data_ptr<T>() + t * width;
      const W* row = WideRow<const T>(in, width, &room);
      AddLogitsOfRow(row, width, rows->largest.mutable_data_ptr<W>() + t,
                     rows->sum.mutable_data_ptr<W>() + t);
      const int64_t column = targets[t] - first;
      if (column >= 0 && column < width) rows->of_target.mutable_data_ptr<W>()[t] = row[column];
    }
  });
}

void BlockGradient(const at::Tensor& log_sum, int64_t first, const int64_t* targets, double scale,
                   at::Tensor* block) {
  const int64_t width = block->size(1);
  Dispatch(*block, [&](auto type) {
    using T = decltype(type);
    using W = Wide<T>;
    std::vector<W> room;
    for (int64_t t = 0; t < block->size(0); ++t) {
      T* out = block->mutable_data_ptr<T>() + t * width;
      if (targets[t] < 0) {
        std::fill_n(out, width, T{0});
        continue;
      }
      W* row = WideRow<T>(out, width, &room);
      const W all = log_sum.const_data_ptr<W>()[t];
      const W factor = static_cast<W>(scale);
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) row[i] = FastExp(row[i] - all) * factor;
      const int64_t column = targets[t] - first;
      if (column >= 0 && column < width) row[column] -= factor;
      if constexpr (!std::is_same_v<T, W>) {
        for (int64_t i = 0; i < width; ++i) out[i] = Narrowed<T>(row[i]);
      }
    }
  });
}

}  // namespace shardscope::model
