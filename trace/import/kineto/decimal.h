// Numbers as Chrome traces have them, exact: a double does not hold microseconds since 1970 with
// three decimals.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace shardscope::imports {

// A decimal number of microseconds as nanoseconds, what is below cut off; nullopt: none, or beyond
// +-2^62 ns.
std::optional<int64_t> ParseMicroseconds(std::string_view text);

// A whole number, with a fraction or an exponent too if that is what it comes to; nullopt: none, or
// beyond int64_t.
std::optional<int64_t> ParseWhole(std::string_view text);

}  // namespace shardscope::imports
