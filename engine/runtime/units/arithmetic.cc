#include "engine/runtime/units/arithmetic.h"

#include <array>

#include "engine/plan/formats.h"

namespace shardscope::runtime {
namespace {

using plan::DType;

// Calls body(what is stored, its format).
template <typename Body>
void WithFormat(DType dtype, const void* values, const Body& body) {
  switch (dtype) {
    case DType::kFp32:
      return body(static_cast<const float*>(values), plan::Fp32Format());
    case DType::kFp64:
      return body(static_cast<const double*>(values), plan::Fp64Format());
    case DType::kBf16:
      return body(static_cast<const uint16_t*>(values), plan::Bf16Format());
    case DType::kFp16:
      return body(static_cast<const uint16_t*>(values), plan::Fp16Format());
  }
}

}  // namespace

template <typename T>
void Widen(const void* values, DType dtype, int64_t from, int64_t elements, T* wide) {
  WithFormat(dtype, values, [&](const auto* all, auto format) {
    const auto* const narrow = all + from;
#pragma omp simd
    for (int64_t i = 0; i < elements; ++i) wide[i] = static_cast<T>(format.Load(narrow[i]));
  });
}

void AddNarrow(const void* from, DType dtype, int64_t elements, float* to) {
  WithFormat(dtype, from, [&](const auto* values, auto format) {
#pragma omp simd
    for (int64_t i = 0; i < elements; ++i) to[i] += static_cast<float>(format.Load(values[i]));
  });
}

template <typename T>
void Scale(double factor, int64_t elements, T* values) {
  const T scale = static_cast<T>(factor);
#pragma omp simd
  for (int64_t i = 0; i < elements; ++i) values[i] *= scale;
}

// In lanes that are named here: what a compiler makes of one sum may begin where memory is aligned,
// and the last bit with it.
double SumOfSquares(const void* values, DType dtype, int64_t elements) {
  constexpr int64_t kLanes = 16;
  double sum = 0;
  WithFormat(dtype, values, [&](const auto* numbers, auto format) {
    std::array<double, kLanes> sums = {};
    const auto square = [&](int64_t i) {
      const auto value = static_cast<double>(format.Load(numbers[i]));
      return value * value;
    };
    const int64_t rest = elements % kLanes;
    for (int64_t from = 0; from < elements - rest; from += kLanes) {
#pragma omp simd
      for (int64_t lane = 0; lane < kLanes; ++lane) {
        sums[static_cast<size_t>(lane)] += square(from + lane);
      }
    }
    for (int64_t lane = 0; lane < rest; ++lane) {
      sums[static_cast<size_t>(lane)] += square(elements - rest + lane);
    }
    for (const double of_lane : sums) sum += of_lane;
  });
  return sum;
}

// A number less itself is zero, unless it is none.
bool AllFinite(const void* values, DType dtype, int64_t elements) {
  uint64_t num_others = 0;
  WithFormat(dtype, values, [&](const auto* numbers, auto format) {
#pragma omp simd reduction(+ : num_others)
    for (int64_t i = 0; i < elements; ++i) {
      const auto value = format.Load(numbers[i]);
      num_others += value - value == 0 ? 0 : 1;
    }
  });
  return num_others == 0;
}

template void Widen<float>(const void*, DType, int64_t, int64_t, float*);
template void Widen<double>(const void*, DType, int64_t, int64_t, double*);
template void Scale<float>(double factor, int64_t elements, float* values);
template void Scale<double>(double factor, int64_t elements, double* values);

}  // namespace shardscope::runtime
