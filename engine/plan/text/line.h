// Line: one line of the text form, taken apart word by word. Used by the parser only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::plan {

// Reading stops at the first problem: afterwards every getter returns its default, and Finish()
// tells the problem. So a caller reads a whole line and looks once.
class Line {
 public:
  Line(std::string_view text, int number);

  bool empty() const { return words_.empty(); }

  // The next positional word, or "" with an error that names what was expected.
  std::string Word(std::string_view expected);
  // The next positional word, a quoted string without its quotes.
  std::string QuotedString(std::string_view expected);
  // A positional index that must be `expected`: entries are numbered from 0 without gaps.
  void Index(size_t expected);

  // Fields "key=value", in any order.
  int64_t Number(std::string_view key, int64_t default_value);
  int32_t Id(std::string_view key, int32_t default_value);
  template <typename Int>
  std::vector<Int> List(std::string_view key);
  std::optional<std::string> Field(std::string_view key);

  void Fail(const std::string& what);

  // An error if anything failed, or if a word of the line was not asked for.
  Status Finish();

 private:
  struct Part {
    std::string key;  // empty for a positional word
    std::string value;
    bool quoted = false;
    bool used = false;
  };
  void Split(std::string_view text);
  const Part* NextPositional(std::string_view expected);
  std::optional<int64_t> ParseNumber(std::string_view key, std::string_view text);

  int number_;
  std::vector<Part> words_;
  Status status_;
};

// The value of `Enum` whose Name() is `name`.
template <typename Enum>
std::optional<Enum> EnumNamed(std::string_view name) {
  for (uint8_t value = 0;; ++value) {
    const std::string_view candidate = Name(static_cast<Enum>(value));
    if (candidate.empty()) return std::nullopt;  // past the last value
    if (candidate == name) return static_cast<Enum>(value);
  }
}

}  // namespace shardscope::plan
