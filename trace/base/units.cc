#include "trace/base/units.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "trace/base/text.h"
#include "trace/base/time.h"

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

std::optional<double> DecimalFactor(std::string_view unit) {
  if (unit == "B") return 1;
  if (unit == "kB") return 1e3;
  if (unit == "MB") return 1e6;
  if (unit == "GB") return 1e9;
  return std::nullopt;
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
  const auto parsed = ParseNumberAndUnit(text);
  if (!parsed || parsed->first < 0) return std::nullopt;
  const auto [number, unit] = *parsed;
  double factor = 0;
  if (unit == "ns") factor = 1;
  if (unit == "us") factor = 1e3;
  if (unit == "ms") factor = 1e6;
  if (unit == "s") factor = 1e9;
  if (factor == 0 && !(unit.empty() && number == 0)) return std::nullopt;
  const double nanoseconds = number * factor;
  if (nanoseconds > static_cast<double>(std::numeric_limits<int64_t>::max() / 2))
    return std::nullopt;
  return std::llround(nanoseconds);
}

std::optional<double> ParseBandwidth(std::string_view text) {
  const auto parsed = ParseNumberAndUnit(text);
  if (!parsed || parsed->first <= 0 || !parsed->second.ends_with("/s")) return std::nullopt;
  const auto factor = DecimalFactor(parsed->second.substr(0, parsed->second.size() - 2));
  if (!factor) return std::nullopt;
  return parsed->first * *factor;
}

std::optional<int64_t> ParseBytes(std::string_view text) {
  const auto parsed = ParseNumberAndUnit(text);
  if (!parsed || parsed->first < 0) return std::nullopt;
  if (parsed->second.empty() && parsed->first == 0) return 0;
  const auto factor = DecimalFactor(parsed->second);
  if (!factor) return std::nullopt;
  const double bytes = parsed->first * *factor;
  if (bytes > static_cast<double>(std::numeric_limits<int64_t>::max() / 2)) return std::nullopt;
  return std::llround(bytes);
}

}  // namespace shardscope
