// Numbers at any place of bytes that a file has; as the machine has them, little-endian.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>

namespace shardscope {

// `bytes`: a string_view, or a span of bytes. nullopt beyond its end.
template <typename Number, typename Bytes>
std::optional<Number> NumberAt(const Bytes& bytes, uint64_t at) {
  static_assert(sizeof(*bytes.data()) == 1);
  if (at > bytes.size() || bytes.size() - at < sizeof(Number)) return std::nullopt;
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof(Number));
  return number;
}

}  // namespace shardscope
