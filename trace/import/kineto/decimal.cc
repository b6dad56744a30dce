#include "trace/import/kineto/decimal.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace shardscope::imports {
namespace {

constexpr int64_t kLargest = int64_t{1} << 62;
constexpr int64_t kMostExponent = 40;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// `text` times 10^shift, cut off at the point.
std::optional<int64_t> ParseShifted(std::string_view text, int64_t shift) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || !IsDigit(text.front())) return std::nullopt;
  const size_t exponent_at = text.find_first_of("eE");
  if (exponent_at != std::string_view::npos) {
    std::string_view digits = text.substr(exponent_at + 1);
    if (digits.starts_with('+')) digits.remove_prefix(1);
    int64_t exponent = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), exponent);
    if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
    if (exponent > kMostExponent || exponent < -kMostExponent) return std::nullopt;
    shift += exponent;
    text = text.substr(0, exponent_at);
  }
  int64_t value = 0;
  bool behind_point = false;
  const auto append = [&value](int digit) {
    if (value > (kLargest - digit) / 10) return false;
    value = 10 * value + digit;
    return true;
  };
  // Digits behind the point take from the shift; once that is used up they are cut off, and a shift
  // below 0 cuts off digits before the point.
  size_t last = text.size();
  if (shift < 0) {
    const size_t point = std::min(text.find('.'), text.size());
    const auto cut = static_cast<size_t>(-shift);
    last = point > cut ? point - cut : 0;
  }
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && !behind_point && at + 1 < text.size()) {
      behind_point = true;
    } else if (!IsDigit(c)) {
      return std::nullopt;
    } else if (shift < 0) {
      if (at < last && !append(c - '0')) return std::nullopt;
    } else if (!behind_point || shift > 0) {
      if (!append(c - '0')) return std::nullopt;
      if (behind_point) --shift;
    }
  }
  for (; shift > 0; --shift) {
    if (!append(0)) return std::nullopt;
  }
  return negative ? -value : value;
}

}  // namespace

std::optional<int64_t> ParseMicroseconds(std::string_view text) { return ParseShifted(text, 3); }

std::optional<int64_t> ParseWhole(std::string_view text) { return ParseShifted(text, 0); }

}  // namespace shardscope::imports
