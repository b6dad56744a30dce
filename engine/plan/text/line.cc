#include "engine/plan/text/line.h"

#include <charconv>
#include <limits>

#include "trace/base/text.h"

namespace shardscope::plan {
namespace {

bool IsSpace(char c) { return c == ' ' || c == '\t' || c == '\r'; }

}  // namespace

Line::Line(std::string_view text, int number) : number_(number) { Split(text); }

void Line::Split(std::string_view text) {
  size_t at = 0;
  while (at < text.size() && text[at] != '#') {
    if (IsSpace(text[at])) {
      ++at;
      continue;
    }
    Part part;
    if (text[at] == '"') {
      part.quoted = true;
      for (++at; at < text.size() && text[at] != '"'; ++at) {
        const bool escaped = text[at] == '\\' && at + 1 < text.size();
        if (escaped) ++at;
        part.value += escaped && text[at] == 'n' ? '\n' : text[at];
      }
      if (at == text.size()) return Fail("a string without a closing quote");
      ++at;
    } else {
      const size_t begin = at;
      while (at < text.size() && !IsSpace(text[at])) ++at;
      const std::string_view word = text.substr(begin, at - begin);
      const size_t equals = word.find('=');
      if (equals == std::string_view::npos) {
        part.value = word;
      } else {
        part.key = word.substr(0, equals);
        part.value = word.substr(equals + 1);
      }
    }
    words_.push_back(std::move(part));
  }
}

const Line::Part* Line::NextPositional(std::string_view expected) {
  for (Part& part : words_) {
    if (part.used || !part.key.empty()) continue;
    part.used = true;
    return &part;
  }
  Fail("expected " + std::string(expected) + ", found the end of the line");
  return nullptr;
}

std::string Line::Word(std::string_view expected) {
  const Part* part = NextPositional(expected);
  return part != nullptr ? part->value : "";
}

std::string Line::QuotedString(std::string_view expected) {
  const Part* part = NextPositional(expected);
  if (part == nullptr) return "";
  if (!part->quoted) {
    Fail("expected " + std::string(expected) + " in quotes, found '" + part->value + "'");
  }
  return part->value;
}

void Line::Index(size_t expected) {
  const std::string word = Word("index " + std::to_string(expected));
  if (word != std::to_string(expected)) {
    Fail("expected index " + std::to_string(expected) + ", found '" + word + "'");
  }
}

std::optional<std::string> Line::Field(std::string_view key) {
  for (Part& part : words_) {
    if (part.used || part.key != key) continue;
    part.used = true;
    return part.value;
  }
  return std::nullopt;
}

std::optional<int64_t> Line::ParseNumber(std::string_view key, std::string_view text) {
  int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size()) return number;
  Fail("expected a number for '" + std::string(key) + "', found '" + std::string(text) + "'");
  return std::nullopt;
}

int64_t Line::Number(std::string_view key, int64_t default_value) {
  const std::optional<std::string> text = Field(key);
  return text ? ParseNumber(key, *text).value_or(default_value) : default_value;
}

int32_t Line::Id(std::string_view key, int32_t default_value) {
  const int64_t number = Number(key, default_value);
  if (number >= std::numeric_limits<int32_t>::min() &&
      number <= std::numeric_limits<int32_t>::max()) {
    return static_cast<int32_t>(number);
  }
  Fail("'" + std::string(key) + "' is out of range");
  return default_value;
}

template <typename Int>
std::vector<Int> Line::List(std::string_view key) {
  std::vector<Int> values;
  const std::optional<std::string> text = Field(key);
  if (!text) return values;
  for (const std::string_view item : shardscope::Split(*text, ',')) {
    const std::optional<int64_t> number = ParseNumber(key, item);
    if (!number) return {};
    if (*number > std::numeric_limits<Int>::max() || *number < std::numeric_limits<Int>::min()) {
      Fail("'" + std::string(key) + "' is out of range");
      return {};
    }
    values.push_back(static_cast<Int>(*number));
  }
  return values;
}

template std::vector<int32_t> Line::List<int32_t>(std::string_view key);
template std::vector<int64_t> Line::List<int64_t>(std::string_view key);

void Line::Fail(const std::string& what) {
  if (status_.ok()) status_ = Status::Error("line " + std::to_string(number_) + ": " + what);
}

Status Line::Finish() {
  for (const Part& part : words_) {
    if (part.used) continue;
    Fail("'" + (part.key.empty() ? part.value : part.key + "=" + part.value) +
         "' is not expected here");
  }
  return status_;
}

}  // namespace shardscope::plan
