#include "trace/import/kineto/decimal.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <system_error>

namespace shardscope::imports {
namespace {

constexpr int64_t kLargestTime = int64_t{1} << 62;
constexpr int kMostDigits = 19;  // that uint64_t holds, whatever they are
constexpr int64_t kMostExponent = 1'000'000;

// digits * 10^exponent.
struct Decimal {
  bool negative = false;
  uint64_t digits = 0;
  int64_t exponent = 0;
};

std::optional<int64_t> ParseExponent(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  int64_t exponent = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
  if (error == std::errc::result_out_of_range) {
    exponent = text.starts_with('-') ? -kMostExponent : kMostExponent;
  } else if (error != std::errc()) {
    return std::nullopt;
  }
  if (end != text.data() + text.size()) return std::nullopt;
  return std::clamp(exponent, -kMostExponent, kMostExponent);
}

// As JSON writes numbers. Digits beyond kMostDigits count as 0.
std::optional<Decimal> ParseDecimal(std::string_view text) {
  Decimal decimal;
  decimal.negative = text.starts_with('-');
  if (decimal.negative) text.remove_prefix(1);
  if (const size_t at = text.find_first_of("eE"); at != std::string_view::npos) {
    const auto exponent = ParseExponent(text.substr(at + 1));
    if (!exponent) return std::nullopt;
    decimal.exponent = *exponent;
    text = text.substr(0, at);
  }
  if (text.empty() || text.front() == '.' || text.back() == '.') return std::nullopt;
  int num_digits = 0;
  bool behind_point = false;
  for (const char c : text) {
    if (c == '.' && !behind_point) {
      behind_point = true;
      continue;
    }
    if (c < '0' || c > '9') return std::nullopt;
    if (num_digits < kMostDigits) {
      decimal.digits = 10 * decimal.digits + static_cast<uint64_t>(c - '0');
      if (decimal.digits != 0) ++num_digits;
      if (behind_point) --decimal.exponent;
    } else if (!behind_point) {
      ++decimal.exponent;
    }
  }
  return decimal;
}

// As a whole number, what is behind its point cut off; nullopt: beyond `largest`.
std::optional<int64_t> Cut(const Decimal& decimal, uint64_t largest, bool* is_whole) {
  uint64_t value = decimal.digits;
  *is_whole = true;
  for (int64_t exponent = decimal.exponent; exponent < 0 && value != 0; ++exponent) {
    if (value % 10 != 0) *is_whole = false;
    value /= 10;
  }
  for (int64_t exponent = decimal.exponent; exponent > 0 && value != 0; --exponent) {
    if (value > largest / 10) return std::nullopt;
    value *= 10;
  }
  if (value > largest) return std::nullopt;
  return static_cast<int64_t>(decimal.negative ? -value : value);
}

}  // namespace

std::optional<int64_t> ParseMicroseconds(std::string_view text) {
  auto decimal = ParseDecimal(text);
  if (!decimal) return std::nullopt;
  decimal->exponent += 3;
  bool is_whole = true;
  return Cut(*decimal, kLargestTime, &is_whole);
}

std::optional<int64_t> ParseWhole(std::string_view text) {
  const auto decimal = ParseDecimal(text);
  if (!decimal) return std::nullopt;
  constexpr uint64_t kLargest = std::numeric_limits<int64_t>::max();
  bool is_whole = true;
  const auto value = Cut(*decimal, kLargest + (decimal->negative ? 1 : 0), &is_whole);
  return is_whole ? value : std::nullopt;
}

}  // namespace shardscope::imports
