#include "ui/widgets/look.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

namespace shardscope::widgets {

TextStyle TextOf(const Look& look) { return {look.fonts.text, ui::kTextSize, look.theme.ink.text}; }
TextStyle DimOf(const Look& look) { return {look.fonts.text, ui::kTextSize, look.theme.ink.dim}; }
TextStyle FaintOf(const Look& look) {
  return {look.fonts.text, ui::kSmallTextSize, look.theme.ink.faint};
}
TextStyle BoldOf(const Look& look) { return {look.fonts.bold, ui::kTextSize, look.theme.ink.text}; }
TextStyle MonoOf(const Look& look) { return {look.fonts.mono, ui::kMonoSize, look.theme.ink.dim}; }

ImVec2 TextSize(const Look& look, const TextStyle& style, std::string_view text) {
  return style.font->CalcTextSizeA(look.Px(style.size), FLT_MAX, 0, text.data(),
                                   text.data() + text.size());
}

ui::Box DrawText(const Look& look, const TextStyle& style, ImVec2 at, std::string_view text) {
  const ImVec2 size = TextSize(look, style, text);
  // Whole pixels: half a pixel off blurs every stem.
  const ImVec2 snapped(std::round(at.x), std::round(at.y));
  ImGui::GetWindowDrawList()->AddText(style.font, look.Px(style.size), snapped, style.color,
                                      text.data(), text.data() + text.size());
  const ui::Box box = ToBox(snapped, {snapped.x + size.x, snapped.y + size.y});
  if (look.log != nullptr) look.log->Text("text", text, box);
  return box;
}

ui::Box DrawTextRight(const Look& look, const TextStyle& style, ImVec2 right_top,
                      std::string_view text) {
  const ImVec2 size = TextSize(look, style, text);
  return DrawText(look, style, {right_top.x - size.x, right_top.y}, text);
}

ui::Box DrawTextCentered(const Look& look, const TextStyle& style, const ui::Box& box,
                         std::string_view text) {
  const ImVec2 size = TextSize(look, style, text);
  const float width = std::min(size.x, box.x1 - box.x0);
  return DrawTextClipped(
      look, style, {(box.x0 + box.x1 - width) / 2, (box.y0 + box.y1 - size.y) / 2}, width, text);
}

ui::Box DrawTextClipped(const Look& look, const TextStyle& style, ImVec2 at, float max_width,
                        std::string_view text) {
  if (TextSize(look, style, text).x <= max_width) return DrawText(look, style, at, text);
  constexpr std::string_view kEllipsis = "…";
  const float room = max_width - TextSize(look, style, kEllipsis).x;
  const char* end = text.data();
  style.font->CalcTextSizeA(look.Px(style.size), std::max(room, 0.0f), 0, text.data(),
                            text.data() + text.size(), &end);
  return DrawText(look, style, at, std::string(text.data(), end).append(kEllipsis));
}

namespace {

// Chinese has no spaces: a line may end at any of its characters, but none begins with what closes
// and none ends with what opens.
bool IsIdeographic(unsigned int c) { return c >= 0x2E80; }
bool Closes(unsigned int c) {
  static constexpr std::u32string_view kClosing = U"，。、；：？！）》」』】”’…";
  return kClosing.find(static_cast<char32_t>(c)) != std::u32string_view::npos;
}
bool Opens(unsigned int c) {
  static constexpr std::u32string_view kOpening = U"（《「『【“‘";
  return kOpening.find(static_cast<char32_t>(c)) != std::u32string_view::npos;
}

// Dear ImGui ends lines at spaces only.
std::string BrokenIntoLines(const Look& look, const TextStyle& style, std::string_view text,
                            float width) {
  std::string lines;
  size_t line = 0;       // where it begins
  size_t can_break = 0;  // in front of this it could end
  unsigned int before = 0;
  for (size_t at = 0; at < text.size();) {
    unsigned int c = 0;
    const auto length = static_cast<size_t>(
        std::max(1, ImTextCharFromUtf8(&c, text.data() + at, text.data() + text.size())));
    const bool between = before == ' ' || IsIdeographic(before) || IsIdeographic(c);
    if (at > line && between && !Closes(c) && !Opens(before) && c != ' ') can_break = at;
    before = c;
    at += length;
    if (c == '\n') {
      lines.append(text.substr(line, at - line));
      line = can_break = at;
    } else if (can_break > line && TextSize(look, style, text.substr(line, at - line)).x > width) {
      lines.append(text.substr(line, can_break - line)).push_back('\n');
      line = can_break;
    }
  }
  return lines.append(text.substr(line));
}

bool HasIdeographs(std::string_view text) {
  // In UTF-8 those from U+3000 on begin with 0xE3 or more; what is between has no such neighbours.
  return std::ranges::any_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0xE3; });
}

}  // namespace

ui::Box Paragraph(const Look& look, const TextStyle& style, std::string_view text) {
  std::string broken;
  if (HasIdeographs(text)) broken = BrokenIntoLines(look, style, text, ContentWidth() - 1);
  const std::string_view lines = broken.empty() ? text : broken;
  ImGui::PushFont(style.font, style.size);
  ImGui::PushStyleColor(ImGuiCol_Text, style.color);
  ImGui::PushTextWrapPos(0);
  ImGui::TextUnformatted(lines.data(), lines.data() + lines.size());
  ImGui::PopTextWrapPos();
  ImGui::PopStyleColor();
  ImGui::PopFont();
  const ui::Box box = ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax());
  if (look.log != nullptr) look.log->Text("text", text, box);
  return box;
}

void LogControl(const Look& look, std::string_view kind, std::string_view id,
                std::string_view text) {
  if (look.log == nullptr) return;
  look.log->Text(std::string(kind).append(":").append(id), text,
                 ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()));
}

void Gap(const Look& look, float pixels) {
  // A Dummy would add the item spacing on top.
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() + look.Px(pixels));
  ImGui::Dummy({0, 0});
  ImGui::SetCursorPosY(ImGui::GetCursorPosY() - ImGui::GetStyle().ItemSpacing.y);
}

float ContentWidth() { return ImGui::GetContentRegionAvail().x; }

}  // namespace shardscope::widgets
