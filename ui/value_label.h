// A key's value as labels have it, where there is little room.
#pragma once

#include <string>
#include <string_view>

namespace shardscope::ui {

// Of a path its file; of no value "–".
inline std::string ValueLabel(std::string_view value) {
  if (value.empty()) return "–";
  if (value.front() != '/') return std::string(value);
  while (value.size() > 1 && value.back() == '/') value.remove_suffix(1);
  if (value.size() == 1) return "/";
  return std::string(value.substr(value.rfind('/') + 1));
}

}  // namespace shardscope::ui
