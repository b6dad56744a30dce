#include "trace/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/unit_factors.h"

namespace shardscope {
namespace {

// Three significant digits for 0 <= |value| < 1000.
std::string ThreeDigits(double value) {
  const double magnitude = std::abs(value);
  if (magnitude >= 99.95) return fmt::format("{:.0f}", value);
  if (magnitude >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

template <size_t N>
std::string Scaled(double value, double base, const std::array<const char*, N>& units) {
  size_t unit = 0;
  while (unit + 1 < N && std::abs(value) >= base * 0.9995) {
    value /= base;
    ++unit;
  }
  const bool whole = unit == 0 && value == std::floor(value);
  return (whole ? fmt::format("{:.0f}", value) : ThreeDigits(value)) + units[unit];
}

// Splits "1.5ms" into 1.5 and "ms".
std::optional<std::pair<double, std::string_view>> ParseNumberAndUnit(std::string_view text) {
  text = Trim(text);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || !std::isfinite(number)) return std::nullopt;
  return std::pair(number, Trim(text.substr(static_cast<size_t>(end - text.data()))));
}

std::optional<int64_t> ParseWhole(std::string_view text, std::span<const UnitFactor> units) {
  const auto parsed = ParseNumberAndUnit(text);
  if (!parsed || parsed->first < 0) return std::nullopt;
  if (parsed->second.empty() && parsed->first == 0) return 0;
  const auto factor = FactorOf(units, parsed->second);
  if (!factor) return std::nullopt;
  const double whole = parsed->first * *factor;
  if (whole > static_cast<double>(std::numeric_limits<int64_t>::max() / 2)) return std::nullopt;
  return std::llround(whole);
}

}  // namespace

std::string FormatDuration(int64_t duration_ns) {
  return Scaled<4>(static_cast<double>(duration_ns), 1000, {" ns", " us", " ms", " s"});
}

std::string FormatBytes(int64_t bytes) {
  return Scaled<5>(static_cast<double>(bytes), 1000, {" B", " kB", " MB", " GB", " TB"});
}

std::string FormatBandwidth(double bytes_per_second) {
  return Scaled<5>(bytes_per_second, 1000, {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"});
}

std::string FormatCount(double count) { return Scaled<4>(count, 1000, {"", " k", " M", " G"}); }

std::string FormatPercent(double share) {
  const double percent = share * 100;
  return std::abs(percent) >= 9.95 ? fmt::format("{:.0f}%", percent)
                                   : fmt::format("{:.1f}%", percent);
}

std::optional<int64_t> ParseDuration(std::string_view text) {
  text = Trim(text);
  // The sign of micro, which the app writes, and the letter of keyboards.
  for (const std::string_view micro : {"\xC2\xB5s", "\xCE\xBCs"}) {
    if (!text.ends_with(micro)) continue;
    text.remove_suffix(micro.size());
    return ParseWhole(std::string(text) + "us", kDurationUnits);
  }
  return ParseWhole(text, kDurationUnits);
}

std::optional<double> ParseBandwidth(std::string_view text) {
  const auto parsed = ParseNumberAndUnit(text);
  if (!parsed || parsed->first <= 0 || !parsed->second.ends_with("/s")) return std::nullopt;
  const auto factor = FactorOf(kSizeUnits, parsed->second.substr(0, parsed->second.size() - 2));
  if (!factor) return std::nullopt;
  return parsed->first * *factor;
}

std::optional<int64_t> ParseBytes(std::string_view text) { return ParseWhole(text, kSizeUnits); }

}  // namespace shardscope
