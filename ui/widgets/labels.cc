#include "ui/widgets/labels.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>

#include "ui/widgets/tooltip.h"

namespace shardscope::widgets {
namespace {

constexpr float kChipHeight = 20;
constexpr float kChipPadding = 8;
constexpr float kSwatchSize = 11;
constexpr float kCardPadding = 12;

TextStyle ChipText(const Look& look, const ChipStyle& style) {
  TextStyle text = style.bold ? BoldOf(look) : DimOf(look);
  text.size = ui::kSmallTextSize;
  text.color = look.theme.ink.dim;
  return text;
}

}  // namespace

float ChipWidth(const Look& look, std::string_view text, const ChipStyle& style) {
  const float swatch = style.swatch ? look.Px(kSwatchSize + 6) : 0;
  return TextSize(look, ChipText(look, style), text).x + swatch +
         look.Px(2 * kChipPadding + style.room_right);
}

void DrawMenuArrow(const Look& look, ImVec2 at) {
  ImGui::GetWindowDrawList()->AddTriangleFilled(
      {at.x, at.y - look.Px(2)}, {at.x + look.Px(6), at.y - look.Px(2)},
      {at.x + look.Px(3), at.y + look.Px(2)}, look.theme.ink.dim);
}

void DrawHatch(const ui::Box& box, float spacing, float thickness, Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->PushClipRect({box.x0, box.y0}, {box.x1, box.y1}, true);
  const float height = box.y1 - box.y0;
  for (float x = box.x0 - height; x < box.x1; x += spacing) {
    list->AddLine({x, box.y1}, {x + height, box.y0}, color, thickness);
  }
  list->PopClipRect();
}

void DrawCross(const Look& look, const ui::Box& box) {
  const float x = (box.x0 + box.x1) / 2;
  const float y = (box.y0 + box.y1) / 2;
  const float s = look.Px(3.5F);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddLine({x - s, y - s}, {x + s, y + s}, look.theme.ink.dim, look.Px(1.3F));
  list->AddLine({x - s, y + s}, {x + s, y - s}, look.theme.ink.dim, look.Px(1.3F));
}

void DrawSwatch(const Look& look, ImVec2 at, float size, Color color, bool hatched) {
  const ImVec2 end(at.x + look.Px(size), at.y + look.Px(size));
  ImGui::GetWindowDrawList()->AddRectFilled(at, end, color, look.Px(2));
  if (hatched) DrawHatch(ToBox(at, end), look.Px(4), look.Px(1), look.theme.op.hatch);
}

ui::Box DrawChip(const Look& look, ImVec2 at, std::string_view text, const ChipStyle& style) {
  const ui::Box box = ToBox(at, {at.x + ChipWidth(look, text, style), at.y + look.Px(kChipHeight)});
  ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1},
                                            look.theme.surface.button, look.Px(ui::kSmallRounding));
  float x = at.x + look.Px(kChipPadding);
  if (style.swatch) {
    DrawSwatch(look, {x - look.Px(2), at.y + look.Px((kChipHeight - kSwatchSize) / 2)}, kSwatchSize,
               *style.swatch, style.hatched);
    x += look.Px(kSwatchSize + 4);
  }
  const TextStyle ink = ChipText(look, style);
  DrawText(look, ink, {x, at.y + (look.Px(kChipHeight) - TextSize(look, ink, text).y) / 2}, text);
  return box;
}

void DrawFoldMark(const Look& look, ImVec2 centre, bool folded) {
  const float s = look.Px(3.5F);
  ImDrawList* list = ImGui::GetWindowDrawList();
  if (folded) {
    list->AddTriangleFilled({centre.x - s * 0.6F, centre.y - s}, {centre.x + s, centre.y},
                            {centre.x - s * 0.6F, centre.y + s}, look.theme.ink.faint);
  } else {
    list->AddTriangleFilled({centre.x - s, centre.y - s * 0.6F},
                            {centre.x + s, centre.y - s * 0.6F}, {centre.x, centre.y + s},
                            look.theme.ink.faint);
  }
}

ui::Box DrawPill(const Look& look, ImVec2 at, float width, std::string_view text, Color ground,
                 Color ink) {
  const ui::Box box = ToBox(at, {at.x + look.Px(width), at.y + look.Px(kChipHeight)});
  ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, ground,
                                            look.Px(kChipHeight / 2));
  DrawTextCentered(look, {look.fonts.bold, ui::kSmallTextSize, ink}, box, text);
  return box;
}

ui::Box KeyValueRow(const Look& look, std::string_view label, std::string_view value,
                    std::optional<Color> value_color) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float width = ContentWidth();
  TextStyle style = BoldOf(look);
  if (value_color) style.color = *value_color;
  const ui::Box box = DrawTextRight(look, style, {at.x + width, at.y}, value);
  DrawTextClipped(look, DimOf(look), at, box.x0 - at.x - look.Px(ui::kGrid), label);
  ImGui::Dummy({width, look.Px(ui::kTextSize + 3)});
  return box;
}

ui::Box DrawNumberSlot(const Look& look, ImVec2 at, const NumberSlot& slot) {
  TextStyle value = BoldOf(look);
  value.size = ui::kKeyNumberSize;
  if (slot.color) value.color = *slot.color;
  TextStyle label = FaintOf(look);
  const float value_height = TextSize(look, value, "0").y;
  const float label_height = TextSize(look, label, "0").y;
  DrawText(look, label, {at.x, at.y + (value_height - label_height) * 0.62f}, slot.label);
  return DrawText(look, value, {at.x + look.Px(slot.label_width), at.y}, slot.value);
}

ui::Box Heading(const Look& look, std::string_view text) {
  const TextStyle style = BoldOf(look);
  if (TextSize(look, style, text).x > ContentWidth()) return Paragraph(look, style, text);
  const ui::Box box = DrawText(look, style, ImGui::GetCursorScreenPos(), text);
  ImGui::Dummy({ContentWidth(), box.y1 - box.y0});
  return box;
}

ui::Box FaintHeading(const Look& look, std::string_view text) {
  TextStyle style{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.dim};
  const ui::Box box = DrawText(look, style, ImGui::GetCursorScreenPos(), text);
  ImGui::Dummy({ContentWidth(), box.y1 - box.y0});
  return box;
}

ui::Box PanelCorner(const Look& look, std::string_view text) {
  const ImGuiWindow* window = ImGui::GetCurrentWindow();
  const float bar = window->DockNode && window->DockNode->TabBar
                        ? window->DockNode->TabBar->BarRect.GetHeight()
                        : look.Px(26);
  const TextStyle style = FaintOf(look);
  const float y = window->Pos.y + (bar - TextSize(look, style, text).y) / 2 + look.Px(1);
  ImDrawList* list = ImGui::GetWindowDrawList();
  // The line of the tabs lies outside the panel's own clip rectangle.
  list->PushClipRect(window->Pos, {window->Pos.x + window->Size.x, window->Pos.y + window->Size.y});
  // A tab that is too long for its panel keeps its name.
  const float title_end = window->DockNode && window->DockNode->TabBar
                              ? window->Pos.x + window->DockNode->TabBar->WidthAllTabsIdeal
                              : window->Pos.x;
  const float right = window->Pos.x + window->Size.x - look.Px(ui::kPanelPadding);
  const float room = right - title_end - look.Px(ui::kGrid);
  const ui::Box box =
      TextSize(look, style, text).x <= room
          ? DrawTextRight(look, style, {right, y}, text)
          : DrawTextClipped(look, style, {right - std::max(room, 0.0F), y}, room, text);
  list->PopClipRect();
  return box;
}

Card::Card(const Look& look, const char* id, Color ground, Color border)
    : look_(look),
      ground_(ground != 0 ? ground : look.theme.surface.raised),
      border_(border != 0 ? border : look.theme.surface.line),
      start_(ImGui::GetCursorScreenPos()),
      width_(ContentWidth()) {
  ImGui::PushID(id);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->ChannelsSplit(2);
  list->ChannelsSetCurrent(1);
  const float padding = look.Px(kCardPadding);
  ImGui::SetCursorScreenPos({start_.x + padding, start_.y + look.Px(8)});
  ImGui::BeginGroup();
  ImGui::PushItemWidth(width_ - 2 * padding);
  // Content that asks for the remaining width shall stop before the padding.
  ImGui::GetCurrentWindow()->WorkRect.Max.x -= padding;
  ImGui::GetCurrentWindow()->ContentRegionRect.Max.x -= padding;
}

Card::~Card() {
  const float padding = look_.Px(kCardPadding);
  ImGui::GetCurrentWindow()->WorkRect.Max.x += padding;
  ImGui::GetCurrentWindow()->ContentRegionRect.Max.x += padding;
  ImGui::PopItemWidth();
  ImGui::EndGroup();
  const ImVec2 end(start_.x + width_, ImGui::GetItemRectMax().y + look_.Px(8));
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->ChannelsSetCurrent(0);
  list->AddRectFilled(start_, end, ground_, look_.Px(ui::kRounding));
  list->AddRect(start_, end, border_, look_.Px(ui::kRounding), look_.Px(1));
  list->ChannelsMerge();
  ImGui::SetCursorScreenPos(start_);
  ImGui::Dummy({width_, end.y - start_.y});
  ImGui::PopID();
}

ui::Box EmptyState(const Look& look, std::string_view text) {
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float width = std::min(room.x, look.Px(420));
  const TextStyle style = DimOf(look);
  const ImVec2 size = style.font->CalcTextSizeA(look.Px(style.size), FLT_MAX, width, text.data(),
                                                text.data() + text.size());
  const ImVec2 at(std::round(origin.x + (room.x - size.x) / 2),
                  std::round(origin.y + std::max(0.0f, (room.y - size.y) / 2)));
  ImGui::GetWindowDrawList()->AddText(style.font, look.Px(style.size), at, style.color, text.data(),
                                      text.data() + text.size(), width);
  ImGui::Dummy(room);
  return ToBox(at, {at.x + size.x, at.y + size.y});
}

}  // namespace shardscope::widgets
