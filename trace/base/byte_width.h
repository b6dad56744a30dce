// Numbers kept in as few bytes as they need, 0 to 8, little endian: how wide they are, and reading
// one back.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace shardscope {

// The bytes that a number needs: 0 for 0.
constexpr size_t ByteWidth(uint64_t number) {
  return (static_cast<size_t>(std::bit_width(number)) + 7) / 8;
}

// The bits of a number of `width` bytes, 0 to 8.
constexpr uint64_t ByteMask(size_t width) {
  return width == 8 ? ~uint64_t{0} : (uint64_t{1} << (8 * width)) - 1;
}

// So many bytes can be read at any number, whatever its width: what packs numbers adds them at the
// end.
inline constexpr size_t kByteWidthPadding = sizeof(uint64_t);

// The number at `at` that has the width of `mask`.
[[gnu::always_inline]] inline uint64_t MaskedNumber(const void* at, uint64_t mask) {
  static_assert(std::endian::native == std::endian::little);
  uint64_t word;
  std::memcpy(&word, at, sizeof(word));
  return word & mask;
}

}  // namespace shardscope
