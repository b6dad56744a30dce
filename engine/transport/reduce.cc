#include "engine/transport/reduce.h"

#include <algorithm>
#include <array>
#include <bit>

namespace shardscope::transport {
namespace {

// Accumulators of a block stay in the first-level cache while the inputs stream by: 8 KiB of fp64.
constexpr size_t kBlockElements = 1024;

struct Fp32 {
  using Stored = float;
  using Sum = float;
  static Sum Load(Stored value) { return value; }
  static Stored Store(Sum sum) { return sum; }
};
struct Fp64 {
  using Stored = double;
  using Sum = double;
  static Sum Load(Stored value) { return value; }
  static Stored Store(Sum sum) { return sum; }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored bits) { return Bf16ToFloat(bits); }
  static Stored Store(Sum sum) { return FloatToBf16(sum); }
};

struct Fp16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored bits) { return Fp16ToFloat(bits); }
  static Stored Store(Sum sum) { return FloatToFp16(sum); }
};

template <typename Format>
void AddBlock(const typename Format::Stored* __restrict input, size_t elements,
              typename Format::Sum* __restrict sums) {
  for (size_t i = 0; i < elements; ++i) sums[i] += Format::Load(input[i]);
}

template <typename Format>
void Sum(std::span<const std::byte* const> inputs, size_t elements, double scale,
         std::byte* output) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  const auto factor = static_cast<Sum>(scale);
  std::array<Sum, kBlockElements> sums;
  for (size_t from = 0; from < elements; from += kBlockElements) {
    const size_t count = std::min(kBlockElements, elements - from);
    const auto block_of = [&](const std::byte* data) {
      return reinterpret_cast<const Stored*>(data) + from;
    };
    // The first input starts the sum: adding it to zero would turn -0 into +0.
    const Stored* first = block_of(inputs.front());
    for (size_t i = 0; i < count; ++i) sums[i] = Format::Load(first[i]);
    for (const std::byte* input : inputs.subspan(1)) {
      AddBlock<Format>(block_of(input), count, sums.data());
    }
    Stored* result = reinterpret_cast<Stored*>(output) + from;
    for (size_t i = 0; i < count; ++i) result[i] = Format::Store(sums[i] * factor);
  }
}

}  // namespace

std::pair<size_t, size_t> ChunkOf(size_t elements, int rank, int num_ranks) {
  const auto at = [&](int r) {
    return elements * static_cast<size_t>(r) / static_cast<size_t>(num_ranks);
  };
  return {at(rank), at(rank + 1)};
}

uint16_t FloatToBf16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t half_to_even = 0x7FFF + ((bits >> 16) & 1);
  const uint32_t rounded = (bits + half_to_even) >> 16;
  const uint32_t quiet_nan = (bits >> 16) | 0x40;
  return static_cast<uint16_t>(value != value ? quiet_nan : rounded);
}

float Fp16ToFloat(uint16_t bits) {
  constexpr uint32_t kExponent = 0x7C00U << 13;
  constexpr float kSmallest = 0x1p-14F;  // of those whose first digit is not stored
  const uint32_t magnitude = (bits & 0x7FFFU) << 13;
  const uint32_t exponent = magnitude & kExponent;
  const uint32_t rebiased = magnitude + ((127U - 15) << 23);
  float value = std::bit_cast<float>(rebiased);
  if (exponent == kExponent) value = std::bit_cast<float>(rebiased + ((128U - 16) << 23));
  if (exponent == 0) value = std::bit_cast<float>(rebiased + (1U << 23)) - kSmallest;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(value) | (bits & 0x8000U) << 16);
}

uint16_t FloatToFp16(float value) {
  constexpr uint32_t kInfinite = (127U + 16) << 23;  // and all above, but for NaN
  constexpr uint32_t kSmallest = (127U - 14) << 23;
  const auto bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  // Rebiased, with 13 bits of fraction less; a carry goes into the exponent, as it should.
  uint32_t result = (magnitude - ((127U - 15) << 23) + 0xFFF + ((magnitude >> 13) & 1)) >> 13;
  if (magnitude < kSmallest) {
    // Adding one half puts the fraction where it belongs, rounded.
    result = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) -
             std::bit_cast<uint32_t>(0.5F);
  }
  if (magnitude >= kInfinite) result = magnitude > 0x7F800000U ? 0x7E00 : 0x7C00;
  return static_cast<uint16_t>(result | ((bits >> 16) & 0x8000U));
}

void SumInOrder(std::span<const std::byte* const> inputs, size_t elements, plan::DType dtype,
                double scale, std::byte* output) {
  switch (dtype) {
    case plan::DType::kFp32:
      return Sum<Fp32>(inputs, elements, scale, output);
    case plan::DType::kFp64:
      return Sum<Fp64>(inputs, elements, scale, output);
    case plan::DType::kBf16:
      return Sum<Bf16>(inputs, elements, scale, output);
    case plan::DType::kFp16:
      return Sum<Fp16>(inputs, elements, scale, output);
  }
}

}  // namespace shardscope::transport
