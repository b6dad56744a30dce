#include "engine/config/toml_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "trace/base/input_file.h"

namespace shardscope::config {
namespace {

constexpr size_t kMaxTomlBytes = 1 << 20;

// Where the string that starts at `at` ends, or the line if it does not.
size_t EndOfString(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string three(3, quote);
  const bool many_lines = text.substr(at, 3) == three;
  for (at += many_lines ? 3 : 1; at < text.size(); ++at) {
    if (quote == '"' && text[at] == '\\') {
      ++at;
    } else if (many_lines && text.substr(at, 3) == three) {
      at += 3;
      for (int i = 0; i < 2 && at < text.size() && text[at] == quote; ++i) ++at;  // of the text
      return at;
    } else if (!many_lines && (text[at] == quote || text[at] == '\n')) {
      return text[at] == quote ? at + 1 : at;
    }
  }
  return text.size();
}

// The line of the first letter beyond ASCII outside quotes and comments; 0 if there is none. No key
// has any, and on some of them toml++ 3.3 runs into what its authors thought unreachable.
int64_t LineOfBareLetter(std::string_view text) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  size_t at = text.starts_with(kByteOrderMark) ? kByteOrderMark.size() : 0;
  while (at < text.size()) {
    if (text[at] == '#') {
      at = std::min(text.find('\n', at), text.size());
    } else if (text[at] == '"' || text[at] == '\'') {
      at = EndOfString(text, at);
    } else if ((static_cast<uint8_t>(text[at]) & 0x80) != 0) {
      return 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(at), '\n');
    } else {
      ++at;
    }
  }
  return 0;
}

}  // namespace

Result<toml::table> ParseTomlFile(const std::string& path) {
  const Result<std::string> read = ReadFile(path, kMaxTomlBytes);
  if (!read.ok()) return read.status();
  const std::string& text = *read;
  // As editors on Windows save it; with or without the mark of its byte order.
  if (text.find('\0') != std::string::npos)
    return Status::Error(fmt::format(
        "{} is UTF-16 or no text at all: save it as UTF-8 (iconv -f UTF-16 -t UTF-8)", path));
  if (const int64_t line = LineOfBareLetter(text); line > 0)
    return Status::Error(
        fmt::format("{}:{}: a letter beyond ASCII stands outside quotes: put the text into quotes",
                    path, line));
  try {
    toml::parse_result result = toml::parse(text);
    if (result) return std::move(result).table();
    return Status::Error(fmt::format("{}:{}: {}", path, result.error().source().begin.line,
                                     result.error().description()));
  } catch (const ParserFault&) {
    return Status::Error(fmt::format("{} is no TOML: look at its table headers and keys", path));
  }
}

}  // namespace shardscope::config
