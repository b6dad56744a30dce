// AdamW on raw memory, the sum of squares for the gradient's norm, factors, and sums of two dtypes:
// loops that the compiler vectorises, so they stand apart from LibTorch's headers and flags. T is
// float or double.
#pragma once

#include <cstdint>

namespace shardscope::runtime {

// One update.
struct UpdateArgs {
  double learning_rate = 0;
  double gradient_scale = 1;  // clipping
  int64_t step = 0;           // from 0
};

template <typename T>
struct AdamState {
  T* parameter;
  const T* gradient;
  T* first_moment;
  T* second_moment;
  int64_t elements;
};

// Elements whose parameter, gradient and moments are zero (padding) stay zero.
template <typename T>
void AdamW(const AdamState<T>& state, const UpdateArgs& args);

// Adds bf16 to fp32, without the cast copy that LibTorch makes on the CPU.
void AddBf16(const uint16_t* from, int64_t elements, float* to);

// Without the tensor that LibTorch makes of a number.
template <typename T>
void Scale(double factor, int64_t elements, T* values);

// In fp64, whatever T.
template <typename T>
double SumOfSquares(const T* values, int64_t elements);

}  // namespace shardscope::runtime
