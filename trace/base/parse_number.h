// Whole numbers in texts that hold nothing else.
#pragma once

#include <charconv>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

namespace shardscope {

// The number that all of `text` is: decimal digits, with '-' before a negative one. nullopt if
// there is anything else in it, spaces and '+' too, or nothing, if it is below `least`, or if `Int`
// does not hold it.
template <typename Int>
std::optional<Int> ParseInteger(std::string_view text,
                                Int least = std::numeric_limits<Int>::min()) {
  Int number = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || rest != end || number < least) return std::nullopt;
  return number;
}

}  // namespace shardscope
