#include "ui/widgets/line_breaks.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>
#include <cctype>

namespace shardscope::widgets {
namespace {

bool IsIdeographic(unsigned int c) { return c >= 0x2E80; }
bool Closes(unsigned int c) {
  static constexpr std::u32string_view kClosing = U"，。、；：？！）》」』】”’…,.;:!?)]%";
  return kClosing.find(static_cast<char32_t>(c)) != std::u32string_view::npos;
}
bool Opens(unsigned int c) {
  static constexpr std::u32string_view kOpening = U"（《「『【“‘([";
  return kOpening.find(static_cast<char32_t>(c)) != std::u32string_view::npos;
}

// Whether a word of ASCII does not go on there: within one no line can end.
bool IsEndOfWord(std::string_view text, size_t at) {
  return at == text.size() || text[at] == ' ' || text[at] == '\n' ||
         static_cast<unsigned char>(text[at]) >= 0x80 ||
         static_cast<unsigned char>(text[at - 1]) >= 0x80;
}

// Whether a space there, behind a number, is in front of its unit.
bool IsBeforeUnit(std::string_view text, size_t space) {
  if (space == 0 || text[space - 1] < '0' || text[space - 1] > '9') return false;
  const std::string_view rest = text.substr(space + 1);
  // "MB/s" begins with one of them.
  static constexpr std::string_view kUnits[] = {"ns", "us", "\xC2\xB5s", "ms", "s",
                                                "B",  "kB", "MB",        "GB", "TB"};
  return std::ranges::any_of(kUnits, [&](std::string_view unit) {
    if (!rest.starts_with(unit)) return false;
    const std::string_view behind = rest.substr(unit.size());
    return behind.empty() || std::isalnum(static_cast<unsigned char>(behind.front())) == 0;
  });
}

}  // namespace

std::string BreakLines(std::string_view text, float width, const WidthOf& width_of) {
  std::string lines;
  size_t line = 0;       // where it begins
  size_t can_break = 0;  // in front of this it may end; line: nowhere
  unsigned int before = 0;
  for (size_t at = 0; at < text.size();) {
    unsigned int c = 0;
    const auto length = static_cast<size_t>(
        std::max(1, ImTextCharFromUtf8(&c, text.data() + at, text.data() + text.size())));
    const bool is_behind_space = before == ' ' && !IsBeforeUnit(text, at - 1);
    const bool is_place = is_behind_space || IsIdeographic(before) || IsIdeographic(c);
    if (at > line && is_place && c != ' ' && !Closes(c) && !Opens(before)) can_break = at;
    before = c;
    at += length;
    if (c == '\n') {
      lines.append(text.substr(line, at - line));
      line = can_break = at;
    } else if (c != ' ' && can_break > line && IsEndOfWord(text, at) &&
               width_of(text.substr(line, at - line)) > width) {
      lines.append(text.substr(line, can_break - line)).push_back('\n');
      line = can_break;
    }
  }
  return lines.append(text.substr(line));
}

}  // namespace shardscope::widgets
