#include "engine/config/utf8.h"

#include <cstdint>

namespace shardscope::config {
namespace {

// Bytes of the sequence that `lead` starts; 0 if it starts none.
size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

bool IsAllowed(uint32_t point, size_t length) {
  constexpr uint32_t kSmallest[] = {0, 0x20, 0x80, 0x800, 0x10000};
  const bool is_surrogate = point >= 0xd800 && point < 0xe000;
  const bool is_control = point >= 0x7f && point < 0xa0;
  return point >= kSmallest[length] && point <= 0x10ffff && !is_surrogate && !is_control;
}

}  // namespace

bool IsPlainUtf8(std::string_view text) {
  while (!text.empty()) {
    const auto lead = static_cast<unsigned char>(text.front());
    const size_t length = SequenceLength(lead);
    if (length == 0 || length > text.size()) return false;
    uint32_t point = length == 1 ? lead : lead & (0xffU >> (length + 1));
    for (size_t i = 1; i < length; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xc0U) != 0x80) return false;
      point = point << 6 | (byte & 0x3fU);
    }
    if (!IsAllowed(point, length)) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace shardscope::config
