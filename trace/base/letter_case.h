// Letters for what is found whether it is written in capitals or not.
#pragma once

#include <string>
#include <string_view>

namespace shardscope {

// A to Z as small letters; all other bytes stay, so that UTF-8 does.
inline std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

}  // namespace shardscope
