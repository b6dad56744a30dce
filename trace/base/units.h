// How quantities are read and written for people: one place, so that app, CLI and docs agree.
#pragma once

#include <cmath>
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace shardscope {

// "12.3 ms", "456 us", "1.23 s": three significant digits, the unit that keeps the number between 1
// and 1000.
std::string FormatDuration(int64_t duration_ns);
// Of a mean or a percentile, to whole nanoseconds. Whole numbers of any type are of the one above.
template <std::same_as<double> Double>
std::string FormatDuration(Double duration_ns) {
  return FormatDuration(static_cast<int64_t>(std::llround(duration_ns)));
}

// "48.5 MB": three significant digits, decimal units (B, kB, MB, GB, TB).
std::string FormatBytes(int64_t bytes);

// "0.5 GB/s": as FormatBytes, per second.
std::string FormatBandwidth(double bytes_per_second);

// "12.3 k": three significant digits with k, M, G.
std::string FormatCount(double count);

// "87%": a share of one, without decimals from 10 % up, with one below.
std::string FormatPercent(double share);

// "20us", "1.5ms", "0s" to nanoseconds; units ns, us, ms, s, required except for 0. nullopt if
// malformed or out of range.
std::optional<int64_t> ParseDuration(std::string_view text);

// "1GB/s", "250MB/s" to bytes per second; units B/s, kB/s, MB/s, GB/s (decimal). nullopt if
// malformed or not positive.
std::optional<double> ParseBandwidth(std::string_view text);

// "64MB", "0" to bytes; units B, kB, MB, GB. nullopt if malformed or negative.
std::optional<int64_t> ParseBytes(std::string_view text);

}  // namespace shardscope
