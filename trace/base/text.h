// Small text helpers that more than one folder needs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope {

std::vector<std::string_view> Split(std::string_view text, char separator);
std::string_view Trim(std::string_view text);

// Takes the part of `text` before `separator`, and that one, away from it; all of it where there is
// none.
std::string_view TakeField(std::string_view* text, char separator);

inline bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Up to the first line break, or all of `text`.
inline std::string_view FirstLine(std::string_view text) { return text.substr(0, text.find('\n')); }

std::string Join(const std::vector<std::string>& parts, std::string_view separator);

// Removes the first code point of `text` and returns it. Without a well-formed sequence in front
// (truncated, overlong, a surrogate, too large) or at its end: none, and nothing is removed.
std::optional<char32_t> TakeCodePoint(std::string_view* text);

// Valid UTF-8 without control characters: the one check on names, paths and messages from outside.
bool IsPlainUtf8(std::string_view text);

// A field of a CSV file (RFC 4180): in quotes where it holds what would end it.
std::string CsvField(std::string_view text);

// Columns that `text` takes in a terminal: two for each Chinese, Japanese or Korean character.
size_t TerminalWidth(std::string_view text);

// Text of unknown origin for a terminal: control characters become spaces, but those in `kept`
// stay; bytes that are no UTF-8 become '?'.
std::string Printable(std::string_view text, std::string_view kept = {});

// `text` in at most `columns` columns; what was too long ends in "...", and no character is cut.
std::string Shortened(std::string_view text, size_t columns);

// The candidate with the smallest edit distance to `word`, if that distance is at most a third of
// its length (at least 2); for "did you mean".
std::optional<std::string> NearestName(std::string_view word,
                                       const std::vector<std::string>& candidates);

// The candidate that `word` is the beginning of, else one that has it within, the shortest of them;
// else the nearest one. For what is typed in part.
std::optional<std::string> MeantName(std::string_view word,
                                     const std::vector<std::string>& candidates);

// What stands in `text` for each {} of `pattern`, as little as can be, and what is behind it all;
// nullopt: it does not begin so.
std::optional<std::vector<std::string>> FilledIn(std::string_view pattern, std::string_view text);

// As text in HTML and XML, in attributes too; control characters stay.
std::string EscapedMarkup(std::string_view text);

// "1 rank", "2 ranks": for nouns that only take an s.
inline std::string Counted(int64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace shardscope
