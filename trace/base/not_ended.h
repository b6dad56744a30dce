// How the name of a span says that its end was not seen: it was still open when its recording
// ended, and lasts up to there.
#pragma once

#include <string_view>

namespace shardscope {

inline constexpr std::string_view kNotEnded = " (not ended)";

inline bool IsNotEnded(std::string_view name) { return name.ends_with(kNotEnded); }

// What it is called where its end was seen.
inline std::string_view WithoutNotEnded(std::string_view name) {
  if (IsNotEnded(name)) name.remove_suffix(kNotEnded.size());
  return name;
}

}  // namespace shardscope
