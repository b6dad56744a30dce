#include "ui/widgets/line_breaks.h"

#include <imgui.h>
#include <imgui_internal.h>

#include <algorithm>

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
    const bool is_place = before == ' ' || IsIdeographic(before) || IsIdeographic(c);
    if (at > line && is_place && c != ' ' && !Closes(c) && !Opens(before)) can_break = at;
    before = c;
    at += length;
    if (c == '\n') {
      lines.append(text.substr(line, at - line));
      line = can_break = at;
    } else if (c != ' ' && can_break > line && width_of(text.substr(line, at - line)) > width) {
      lines.append(text.substr(line, can_break - line)).push_back('\n');
      line = can_break;
    }
  }
  return lines.append(text.substr(line));
}

// In UTF-8 those from U+3000 on begin with 0xE3 or more, and no text of them has only rarer ones.
bool HasIdeographs(std::string_view text) {
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xE3; });
}

}  // namespace shardscope::widgets
