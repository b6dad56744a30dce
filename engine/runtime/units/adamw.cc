#include "engine/runtime/units/adamw.h"

#include <bit>
#include <cmath>

#include "engine/model/training_settings.h"

namespace shardscope::runtime {

template <typename T>
void AdamW(const AdamState<T>& state, const UpdateArgs& args) {
  const auto count = static_cast<double>(args.step + 1);
  const double correction1 = 1 - std::pow(model::kBeta1, count);
  const double correction2 = 1 - std::pow(model::kBeta2, count);
  const auto decay = static_cast<T>(1 - args.learning_rate * model::kWeightDecay);
  const auto rate = static_cast<T>(args.learning_rate / correction1);
  const auto inverse2 = static_cast<T>(1 / correction2);
  const auto scale = static_cast<T>(args.gradient_scale);
  constexpr auto kB1 = static_cast<T>(model::kBeta1);
  constexpr auto kB2 = static_cast<T>(model::kBeta2);
  constexpr auto kEpsilon = static_cast<T>(model::kAdamEpsilon);
  T* const parameters = state.parameter;
  const T* const gradients = state.gradient;
  T* const firsts = state.first_moment;
  T* const seconds = state.second_moment;
#pragma omp simd
  for (int64_t i = 0; i < state.elements; ++i) {
    const T gradient = gradients[i] * scale;
    const T first = firsts[i] * kB1 + gradient * (1 - kB1);
    const T second = seconds[i] * kB2 + gradient * gradient * (1 - kB2);
    firsts[i] = first;
    seconds[i] = second;
    parameters[i] =
        parameters[i] * decay - rate * first / (std::sqrt(second * inverse2) + kEpsilon);
  }
}

void AddBf16(const uint16_t* from, int64_t elements, float* to) {
#pragma omp simd
  for (int64_t i = 0; i < elements; ++i) to[i] += std::bit_cast<float>(uint32_t{from[i]} << 16);
}

template <typename T>
void Scale(double factor, int64_t elements, T* values) {
  const T scale = static_cast<T>(factor);
#pragma omp simd
  for (int64_t i = 0; i < elements; ++i) values[i] *= scale;
}

template <typename T>
double SumOfSquares(const T* values, int64_t elements) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < elements; ++i) {
    sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  }
  return sum;
}

template void AdamW<float>(const AdamState<float>& state, const UpdateArgs& args);
template void AdamW<double>(const AdamState<double>& state, const UpdateArgs& args);
template void Scale<float>(double factor, int64_t elements, float* values);
template void Scale<double>(double factor, int64_t elements, double* values);
template double SumOfSquares<float>(const float* values, int64_t elements);
template double SumOfSquares<double>(const double* values, int64_t elements);

}  // namespace shardscope::runtime
