#include "trace/base/text.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace shardscope {
namespace {

size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitution});
    }
  }
  return row[b.size()];
}

// Bytes of the UTF-8 sequence that `lead` starts; 0 if it starts none.
size_t SequenceLength(unsigned char lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead < 0xe0) return 2;
  if (lead >= 0xe0 && lead < 0xf0) return 3;
  if (lead >= 0xf0 && lead < 0xf5) return 4;
  return 0;
}

// East Asian Wide and Fullwidth (Unicode annex 11) as ranges that include unassigned neighbours.
bool IsWide(char32_t point) {
  constexpr std::pair<char32_t, char32_t> kWide[] = {
      {0x1100, 0x115f}, {0x2e80, 0x303e},   {0x3041, 0xa4cf},   {0xa960, 0xa97c},
      {0xac00, 0xd7a3}, {0xf900, 0xfaff},   {0xfe30, 0xfe6f},   {0xff01, 0xff60},
      {0xffe0, 0xffe6}, {0x1f300, 0x1f64f}, {0x1f900, 0x1f9ff}, {0x20000, 0x3fffd}};
  return std::any_of(std::begin(kWide), std::end(kWide), [point](const auto& range) {
    return point >= range.first && point <= range.second;
  });
}

bool IsControl(char32_t point) { return point < 0x20 || (point >= 0x7f && point < 0xa0); }

// Removes the first character of `text`, or the first byte if none stands there, and returns its
// columns.
size_t TakeColumns(std::string_view* text) {
  const std::optional<char32_t> point = TakeCodePoint(text);
  if (!point) text->remove_prefix(1);
  return point && IsWide(*point) ? 2 : 1;
}

}  // namespace

std::string_view TakeField(std::string_view* text, char separator) {
  const size_t end = text->find(separator);
  const std::string_view field = text->substr(0, end);
  *text = end == std::string_view::npos ? std::string_view() : text->substr(end + 1);
  return field;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    if (end == std::string_view::npos) break;
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n";
  const size_t begin = text.find_first_not_of(kSpace);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

std::string Join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string joined;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) joined += separator;
    joined += part;
  }
  return joined;
}

std::optional<char32_t> TakeCodePoint(std::string_view* text) {
  constexpr char32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};  // by length: no overlong forms
  if (text->empty()) return std::nullopt;
  const auto lead = static_cast<unsigned char>(text->front());
  const size_t length = SequenceLength(lead);
  if (length == 0 || length > text->size()) return std::nullopt;
  char32_t point = length == 1 ? lead : lead & (0xffU >> (length + 1));
  for (size_t i = 1; i < length; ++i) {
    const auto byte = static_cast<unsigned char>((*text)[i]);
    if ((byte & 0xc0U) != 0x80) return std::nullopt;
    point = point << 6 | (byte & 0x3fU);
  }
  const bool is_surrogate = point >= 0xd800 && point < 0xe000;
  if (point < kSmallest[length] || point > 0x10ffff || is_surrogate) return std::nullopt;
  text->remove_prefix(length);
  return point;
}

bool IsPlainUtf8(std::string_view text) {
  while (!text.empty()) {
    const std::optional<char32_t> point = TakeCodePoint(&text);
    if (!point || IsControl(*point)) return false;
  }
  return true;
}

std::string CsvField(std::string_view text) {
  if (text.find_first_of(",\"\r\n") == std::string_view::npos) return std::string(text);
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

size_t TerminalWidth(std::string_view text) {
  size_t columns = 0;
  while (!text.empty()) columns += TakeColumns(&text);
  return columns;
}

std::string Printable(std::string_view text, std::string_view kept) {
  std::string printable;
  while (!text.empty()) {
    const std::string_view before = text;
    const std::optional<char32_t> point = TakeCodePoint(&text);
    if (!point) {
      printable += '?';
      text.remove_prefix(1);
    } else if (IsControl(*point) && kept.find(before.front()) == std::string_view::npos) {
      printable += ' ';
    } else {
      printable += before.substr(0, before.size() - text.size());
    }
  }
  return printable;
}

std::string Shortened(std::string_view text, size_t columns) {
  constexpr std::string_view kMore = "...";
  if (TerminalWidth(text) <= columns) return std::string(text);
  std::string_view rest = text;
  size_t kept = 0;
  size_t width = kMore.size();
  while (!rest.empty()) {
    width += TakeColumns(&rest);
    if (width > columns) break;
    kept = text.size() - rest.size();
  }
  return std::string(text.substr(0, kept)) += kMore;
}

std::optional<std::string> NearestName(std::string_view word,
                                       const std::vector<std::string>& candidates) {
  std::optional<std::string> nearest;
  size_t smallest = std::max<size_t>(2, word.size() / 3) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = EditDistance(word, candidate);
    if (distance < smallest) {
      smallest = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

std::optional<std::string> MeantName(std::string_view word,
                                     const std::vector<std::string>& candidates) {
  const std::string* begins = nullptr;
  const std::string* contains = nullptr;
  const auto take = [](const std::string& candidate, const std::string** shortest) {
    if (*shortest == nullptr || candidate.size() < (*shortest)->size()) *shortest = &candidate;
  };
  for (const std::string& candidate : candidates) {
    const size_t at = word.empty() ? std::string::npos : candidate.find(word);
    if (at == 0) take(candidate, &begins);
    if (at != std::string::npos) take(candidate, &contains);
  }
  if (begins != nullptr) return *begins;
  return contains != nullptr ? *contains : NearestName(word, candidates);
}

std::optional<std::vector<std::string>> FilledIn(std::string_view pattern, std::string_view text) {
  constexpr std::string_view kGap = "{}";
  size_t gap = pattern.find(kGap);
  if (!text.starts_with(pattern.substr(0, gap))) return std::nullopt;
  text.remove_prefix(std::min(gap, pattern.size()));
  std::vector<std::string> filled;
  while (gap != std::string_view::npos) {
    pattern.remove_prefix(gap + kGap.size());
    gap = pattern.find(kGap);
    const std::string_view behind = pattern.substr(0, gap);
    const size_t at = text.find(behind);
    if (at == std::string_view::npos) return std::nullopt;
    filled.emplace_back(text.substr(0, at));
    text.remove_prefix(at + behind.size());
  }
  filled.emplace_back(text);
  return filled;
}

std::string EscapedMarkup(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace shardscope
