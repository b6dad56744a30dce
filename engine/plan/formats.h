// How values of each type are stored, and in what they are summed: compiled for the CPU and, by
// nvcc, for a GPU, so that sums have the same bits everywhere. No CUDA headers.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define SHARDSCOPE_HOST_DEVICE __host__ __device__
#else
#define SHARDSCOPE_HOST_DEVICE
#endif

namespace shardscope::plan {

// The C++ standard library's std::bit_cast is not for device code.
SHARDSCOPE_HOST_DEVICE inline uint32_t BitsOfFloat(float value) {
  uint32_t bits;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}
SHARDSCOPE_HOST_DEVICE inline float FloatOfBits(uint32_t bits) {
  float value;
  __builtin_memcpy(&value, &bits, sizeof(value));
  return value;
}

// What follows has no branches, so that loops over it are vectorised.

// bf16 is the upper half of an fp32.
SHARDSCOPE_HOST_DEVICE inline float Bf16ToFloat(uint16_t bits) {
  return FloatOfBits(uint32_t{bits} << 16);
}
// To nearest, ties to even; NaN stays NaN.
SHARDSCOPE_HOST_DEVICE inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t half_to_even = 0x7FFF + ((bits >> 16) & 1);
  const uint32_t rounded = (bits + half_to_even) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>(value != value ? quiet_nan : rounded);
}

// fp16 is IEEE 754's binary16: 10 bits of fraction. Rounded to nearest, ties to even; from 65520 on
// it is infinite.
SHARDSCOPE_HOST_DEVICE inline float Fp16ToFloat(uint16_t bits) {
  const uint32_t magnitude = (bits & 0x7FFFU) << 13;
  // Rebiased by a product, which gives the smallest numbers the digit that is not stored and takes
  // what is no finite number to 2^16 and above.
  const float value = FloatOfBits(magnitude) * 0x1p112F;
  const uint32_t top = magnitude >= 0x7C00U << 13 ? 0x7F800000U : 0;
  return FloatOfBits(BitsOfFloat(value) | top | (bits & 0x8000U) << 16);
}
SHARDSCOPE_HOST_DEVICE inline uint16_t FloatToFp16(float value) {
  constexpr uint32_t kInfinite = (127U + 16) << 23;  // and all above, but for NaN
  constexpr uint32_t kSmallest = (127U - 14) << 23;
  const uint32_t bits = BitsOfFloat(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Rebiased, with 13 bits of fraction less; a carry goes into the exponent, as it should.
  uint32_t result = (magnitude - ((127U - 15) << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  if (magnitude < kSmallest) {
    // Adding one half puts the fraction where it belongs, rounded.
    result = BitsOfFloat(FloatOfBits(magnitude) + 0.5F) - BitsOfFloat(0.5F);
  }
  if (magnitude >= kInfinite) result = magnitude > 0x7F800000U ? 0x7E00 : 0x7C00;
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000U));
}

struct Fp32Format {
  using Stored = float;
  using Sum = float;
  SHARDSCOPE_HOST_DEVICE static Sum Load(Stored value) { return value; }
  SHARDSCOPE_HOST_DEVICE static Stored Store(Sum sum) { return sum; }
};
struct Fp64Format {
  using Stored = double;
  using Sum = double;
  SHARDSCOPE_HOST_DEVICE static Sum Load(Stored value) { return value; }
  SHARDSCOPE_HOST_DEVICE static Stored Store(Sum sum) { return sum; }
};
struct Bf16Format {
  using Stored = uint16_t;
  using Sum = float;
  SHARDSCOPE_HOST_DEVICE static Sum Load(Stored bits) { return Bf16ToFloat(bits); }
  SHARDSCOPE_HOST_DEVICE static Stored Store(Sum sum) { return FloatToBf16(sum); }
};
struct Fp16Format {
  using Stored = uint16_t;
  using Sum = float;
  SHARDSCOPE_HOST_DEVICE static Sum Load(Stored bits) { return Fp16ToFloat(bits); }
  SHARDSCOPE_HOST_DEVICE static Stored Store(Sum sum) { return FloatToFp16(sum); }
};

}  // namespace shardscope::plan
