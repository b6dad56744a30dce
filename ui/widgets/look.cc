#include "ui/widgets/look.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>

#include "ui/widgets/line_breaks.h"

namespace shardscope::widgets {

TextStyle TextOf(const Look& look) { return {look.fonts.text, ui::kTextSize, look.theme.ink.text}; }
TextStyle DimOf(const Look& look) { return {look.fonts.text, ui::kTextSize, look.theme.ink.dim}; }
TextStyle FaintOf(const Look& look) {
  return {look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim};
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

std::string WithLineBreaks(const Look& look, const TextStyle& style, std::string_view text,
                           float width) {
  if (text.empty() || TextSize(look, style, text).x < width) return std::string(text);
  return BreakLines(text, width - 1,
                    [&](std::string_view line) { return TextSize(look, style, line).x; });
}

ui::Box Paragraph(const Look& look, const TextStyle& style, std::string_view text) {
  ImGui::PushFont(style.font, style.size);
  // Measured as it is drawn: Dear ImGui rounds the size of a font that is pushed.
  const std::string lines = BreakLines(text, ContentWidth() - 1, [](std::string_view line) {
    return ImGui::CalcTextSize(line.data(), line.data() + line.size()).x;
  });
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

void BesideOrBelow(float width, float gap) {
  const float right = ImGui::GetCursorScreenPos().x + ContentWidth();
  if (ImGui::GetItemRectMax().x + gap + width <= right) ImGui::SameLine(0, gap);
}

}  // namespace shardscope::widgets
