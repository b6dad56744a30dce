// Small text helpers that more than one folder needs.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

std::vector<std::string_view> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);
std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// Removes the first code point of `text` and returns it. Without a well-formed sequence in front
// (truncated, overlong, a surrogate, too large) or at its end: none, and nothing is removed.
std::optional<char32_t> TakeCodePoint(std::string_view* text);

// Valid UTF-8 without control characters: the one check on names, paths and messages from outside.
bool IsPlainUtf8(std::string_view text);

// The candidate with the smallest edit distance to `word`, if that distance is at most a third of
// its length (at least 2); for "did you mean".
std::optional<std::string> NearestName(std::string_view word,
                                       const std::vector<std::string>& candidates);

}  // namespace shardscope
