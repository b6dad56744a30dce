// Loops over gradients in raw memory: sums of squares, factors, casts and sums of two dtypes; apart
// from LibTorch's headers and flags, as the compiler vectorises them.
#pragma once

#include <cstdint>

#include "engine/plan/op.h"

namespace shardscope::runtime {

// Elements [from, from + elements) of `values` as T, float or double.
template <typename T>
void Widen(const void* values, plan::DType dtype, int64_t from, int64_t elements, T* wide);

// Adds bf16 or fp16 to fp32, without the cast copy that LibTorch makes on the CPU.
void AddNarrow(const void* from, plan::DType dtype, int64_t elements, float* to);

// Without the tensor that LibTorch makes of a number. T: float or double.
template <typename T>
void Scale(double factor, int64_t elements, T* values);

// In fp64, whatever the dtype; the same bits wherever the values lie.
double SumOfSquares(const void* values, plan::DType dtype, int64_t elements);

// Whether none of them is infinite or NaN.
bool AllFinite(const void* values, plan::DType dtype, int64_t elements);

}  // namespace shardscope::runtime
