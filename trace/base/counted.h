// Counted: a number with its noun, for messages.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace shardscope {

// "1 rank", "2 ranks": for nouns that only take an s.
inline std::string Counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace shardscope
