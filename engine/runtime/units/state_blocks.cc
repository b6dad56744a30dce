#include "engine/runtime/units/state_blocks.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "engine/plan/optimizer_state.h"

namespace shardscope::runtime {
namespace {

// Decade e of 1 to kDecades has 2^e cells, from 10^(e - kDecades - 1) to ten times that, and its
// codes begin with 2^e - 1: code 0 is zero, and the last one the scale itself.
template <BlockRange range>
struct Map {
  static constexpr int kDecades = range == BlockRange::kSigned ? 6 : 7;
  static constexpr int kNumMagnitudes = 1 << (kDecades + 1);
  static constexpr int kLast = kNumMagnitudes - 1;

  struct Decade {
    float from = 0;
    float cells = 0;       // 2^e
    float per_number = 0;  // cells a unit
  };
  std::array<Decade, kDecades + 1> decades;
  std::array<float, kNumMagnitudes> magnitudes{};
  float from_last = 0;  // halfway between the last cell's middle and 1

  Map() {
    for (int e = 1; e <= kDecades; ++e) {
      const double from = std::pow(10.0, e - kDecades - 1);
      const int cells = 1 << e;
      const double width = 9 * from / cells;
      decades[static_cast<size_t>(e)] = {static_cast<float>(from), static_cast<float>(cells),
                                         static_cast<float>(1 / width)};
      for (int cell = 0; cell < cells; ++cell) {
        magnitudes[static_cast<size_t>(cells - 1 + cell)] =
            static_cast<float>(from + (cell + 0.5) * width);
      }
    }
    magnitudes[kLast] = 1;
    from_last = (magnitudes[kLast - 1] + 1) / 2;
  }
};

template <BlockRange range>
const Map<range>& TheMap() {
  static const Map<range> kMap;
  return kMap;
}

// `share`: of the block's largest magnitude.
template <BlockRange range>
int CodeOf(const Map<range>& map, float share) {
  constexpr auto kDecades = static_cast<size_t>(Map<range>::kDecades);
  auto decade = map.decades[1];
  for (size_t e = 2; e <= kDecades; ++e) {
    const bool is_above = share >= map.decades[e].from;
    decade.from = is_above ? map.decades[e].from : decade.from;
    decade.cells = is_above ? map.decades[e].cells : decade.cells;
    decade.per_number = is_above ? map.decades[e].per_number : decade.per_number;
  }
  const float cell =
      std::min(std::max((share - decade.from) * decade.per_number, 0.0F), decade.cells - 1);
  const int code = static_cast<int>(decade.cells) - 1 + static_cast<int>(cell);
  // Half the smallest number that has a code is nearer to zero.
  const float least = range == BlockRange::kSigned ? map.magnitudes[1] / 2 : 0;
  const int with_zero = share > least ? code : 0;
  return share >= map.from_last ? Map<range>::kLast : with_zero;
}

template <typename T, BlockRange range>
void Encode(const T* values, int64_t elements, uint8_t* codes, float* scale) {
  T largest = 0;
  for (int64_t i = 0; i < elements; ++i) largest = std::max(largest, std::abs(values[i]));
  *scale = static_cast<float>(largest);
  if (*scale == 0) {
    std::fill_n(codes, elements, uint8_t{0});
    return;
  }
  const Map<range>& map = TheMap<range>();
  const auto divisor = static_cast<T>(*scale);
  for (int64_t i = 0; i < elements; ++i) {
    const auto exact = static_cast<float>(std::abs(values[i]) / divisor);
    const float share = std::isfinite(exact) ? exact : 1;  // which has a code; its update is lost
    const int sign = range == BlockRange::kSigned && values[i] < 0 ? 0x80 : 0;
    codes[i] = static_cast<uint8_t>(CodeOf<range>(map, share) | sign);
  }
}

template <typename T, BlockRange range>
void Decode(const uint8_t* codes, float scale, int64_t elements, T* values) {
  const Map<range>& map = TheMap<range>();
  for (int64_t i = 0; i < elements; ++i) {
    if constexpr (range == BlockRange::kNeverNegative) {
      values[i] = static_cast<T>(map.magnitudes[codes[i]] * scale);
    } else {
      const float magnitude = map.magnitudes[codes[i] & 0x7FU] * scale;
      values[i] = static_cast<T>((codes[i] & 0x80U) != 0 ? -magnitude : magnitude);
    }
  }
}

// Calls body(first element, elements, block).
template <typename Body>
void ForEachBlock(int64_t elements, const Body& body) {
  for (int64_t block = 0; block * plan::kStateBlockElements < elements; ++block) {
    const int64_t from = block * plan::kStateBlockElements;
    body(from, std::min(plan::kStateBlockElements, elements - from), block);
  }
}

}  // namespace

template <typename T>
void EncodeBlocks(const T* values, int64_t elements, BlockRange range, uint8_t* codes,
                  float* scales) {
  ForEachBlock(elements, [&](int64_t from, int64_t count, int64_t block) {
    if (range == BlockRange::kSigned) {
      Encode<T, BlockRange::kSigned>(values + from, count, codes + from, scales + block);
    } else {
      Encode<T, BlockRange::kNeverNegative>(values + from, count, codes + from, scales + block);
    }
  });
}

template <typename T>
void DecodeBlocks(const uint8_t* codes, const float* scales, int64_t elements, BlockRange range,
                  T* values) {
  ForEachBlock(elements, [&](int64_t from, int64_t count, int64_t block) {
    if (range == BlockRange::kSigned) {
      Decode<T, BlockRange::kSigned>(codes + from, scales[block], count, values + from);
    } else {
      Decode<T, BlockRange::kNeverNegative>(codes + from, scales[block], count, values + from);
    }
  });
}

template void EncodeBlocks<float>(const float*, int64_t, BlockRange, uint8_t*, float*);
template void EncodeBlocks<double>(const double*, int64_t, BlockRange, uint8_t*, float*);
template void DecodeBlocks<float>(const uint8_t*, const float*, int64_t, BlockRange, float*);
template void DecodeBlocks<double>(const uint8_t*, const float*, int64_t, BlockRange, double*);

}  // namespace shardscope::runtime
