// Differences for people.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

// `format` of the number with its sign in front: "+1.2 ms", "-7.8 MB"; in front of zero `of_zero`.
inline std::string SignedText(double number, std::string (*format)(int64_t),
                              std::string_view of_zero = "") {
  const std::string_view sign = number < 0 ? "-" : number > 0 ? "+" : of_zero;
  return std::string(sign) + format(static_cast<int64_t>(std::abs(number)));
}

}  // namespace shardscope
