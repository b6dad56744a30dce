#include "ui/widgets/buttons.h"

#include <algorithm>
#include <cmath>

#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::widgets {
namespace {

constexpr float kSegmentHeight = 24;
constexpr float kSegmentGap = 2;

ui::Box ItemBox() { return ToBox(ImGui::GetItemRectMin(), ImGui::GetItemRectMax()); }

// Of the last item.
ButtonState StateOf(bool enabled, bool chosen = false) {
  return {.enabled = enabled, .hovered = enabled && ImGui::IsItemHovered(), .chosen = chosen};
}

void DrawIcon(const Look& look, Icon icon, const ui::Box& box, Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float cx = std::round((box.x0 + box.x1) / 2);
  const float cy = std::round((box.y0 + box.y1) / 2);
  const float u = look.Px(1);
  switch (icon) {
    case Icon::kPause:
      list->AddRectFilled({cx - 5 * u, cy - 5 * u}, {cx - 2 * u, cy + 5 * u}, color, u);
      list->AddRectFilled({cx + 2 * u, cy - 5 * u}, {cx + 5 * u, cy + 5 * u}, color, u);
      return;
    case Icon::kPlay:
      list->AddTriangleFilled({cx - 4 * u, cy - 6 * u}, {cx - 4 * u, cy + 6 * u}, {cx + 6 * u, cy},
                              color);
      return;
    case Icon::kStep:
      list->AddTriangleFilled({cx - 6 * u, cy - 5 * u}, {cx - 6 * u, cy + 5 * u}, {cx + 3 * u, cy},
                              color);
      list->AddRectFilled({cx + 4 * u, cy - 5 * u}, {cx + 6 * u, cy + 5 * u}, color);
      return;
    case Icon::kStop:
      list->AddRectFilled({cx - 5 * u, cy - 5 * u}, {cx + 5 * u, cy + 5 * u}, color, u);
      return;
    case Icon::kMenu:
      for (const float y : {-5.0f, -1.0f, 3.0f}) {
        list->AddRectFilled({cx - 6 * u, cy + y * u}, {cx + 6 * u, cy + (y + 2) * u}, color);
      }
      return;
  }
}

constexpr float kArrowRoom = 12;

}  // namespace

ButtonColors ColorsOfSegment(const ui::Theme& theme, const ButtonState& state) {
  const ui::SurfaceColors& surface = theme.surface;
  if (state.chosen) {
    return state.enabled ? ButtonColors{surface.chosen, theme.ink.text}
                         : ButtonColors{surface.hovered, theme.ink.dim};
  }
  return {state.hovered ? surface.hovered : surface.button,
          state.enabled ? theme.ink.dim : theme.ink.faint};
}

ButtonColors ColorsOfButton(const ui::Theme& theme, Emphasis emphasis, const ButtonState& state) {
  const ui::SurfaceColors& surface = theme.surface;
  if (!state.enabled) return {surface.button, theme.ink.faint};
  if (emphasis == Emphasis::kPrimary) {
    return {state.hovered ? surface.primary_hovered : surface.primary, theme.ink.on_dark};
  }
  return {state.hovered ? surface.hovered : surface.button, theme.ink.text};
}

bool ClickArea(const char* id, ImVec2 size) {
  return ImGui::InvisibleButton(id, size, ImGuiButtonFlags_EnableNav);
}

void ItemGround(const Look& look, Color color, bool marked) {
  if (!marked && !ImGui::IsItemHovered() && !ImGui::IsItemFocused()) return;
  ImGui::GetWindowDrawList()->AddRectFilled(ImGui::GetItemRectMin(), ImGui::GetItemRectMax(), color,
                                            look.Px(ui::kSmallRounding));
}

int Segmented(const Look& look, const char* id, const Segments& segments) {
  const int count = static_cast<int>(segments.options.size());
  if (count == 0) return -1;
  int clicked = -1;
  const float gap = look.Px(kSegmentGap);
  const auto width_of = [gap](float all, int in_a_row) {
    return (all - gap * static_cast<float>(in_a_row - 1)) / static_cast<float>(in_a_row);
  };
  const float room = ContentWidth();
  int in_a_row = count;
  float width = width_of(segments.width > 0 ? segments.width : room, count);
  if (segments.width > room + 1) {  // more than what rounding adds
    in_a_row = std::clamp(static_cast<int>((room + gap) / (width + gap)), 1, count);
    width = width_of(room, in_a_row);
  }
  ImGui::PushID(id);
  ImGui::BeginDisabled(!segments.enabled);
  for (int i = 0; i < count; ++i) {
    if (i % in_a_row > 0) ImGui::SameLine(0, gap);
    const std::string& label = segments.options[static_cast<size_t>(i)];
    if (ClickArea(label.c_str(), {width, look.Px(kSegmentHeight)})) clicked = i;
    LogControl(look, "segment", label, label);
    if (segments.takes_keyboard && segments.enabled && i == std::max(segments.chosen, 0)) {
      FocusLastItem();
    }
    const ui::Box box = ItemBox();
    const bool chosen = i == segments.chosen;
    const bool asked_for = i == segments.pending && !chosen;
    if (chosen) LogControl(look, "chosen", label, label);
    if (asked_for) LogControl(look, "asked_for", label, label);
    ImDrawList* list = ImGui::GetWindowDrawList();
    const float rounding = look.Px(ui::kSmallRounding);
    const ButtonColors colors = ColorsOfSegment(look.theme, StateOf(segments.enabled, chosen));
    list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, colors.ground, rounding);
    if (asked_for) {
      list->AddRect({box.x0, box.y0}, {box.x1, box.y1}, look.theme.state.pending, rounding,
                    look.Px(1.5f));
    }
    TextStyle style = chosen ? BoldOf(look) : DimOf(look);
    style.color = colors.text;
    DrawTextCentered(look, style, box, label);
    if (TextSize(look, style, label).x > box.x1 - box.x0) ItemTooltip(look, label, {});
  }
  ImGui::EndDisabled();
  ImGui::PopID();
  return clicked == segments.chosen && segments.pending < 0 ? -1 : clicked;
}

float ButtonWidth(const Look& look, std::string_view label, Emphasis emphasis) {
  const TextStyle style = emphasis == Emphasis::kPrimary ? BoldOf(look) : TextOf(look);
  return TextSize(look, style, label).x + look.Px(24);
}

bool Button(const Look& look, const char* id, std::string_view label, Emphasis emphasis,
            float width, bool enabled) {
  TextStyle style = emphasis == Emphasis::kPrimary ? BoldOf(look) : TextOf(look);
  const ImVec2 size(width > 0 ? width : ButtonWidth(look, label, emphasis), look.Px(26));
  ImGui::BeginDisabled(!enabled);
  const bool clicked = ClickArea(id, size);
  ImGui::EndDisabled();
  LogControl(look, "button", id, label);
  const ui::Box box = ItemBox();
  const ButtonColors colors = ColorsOfButton(look.theme, emphasis, StateOf(enabled));
  style.color = colors.text;
  ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, colors.ground,
                                            look.Px(ui::kSmallRounding));
  DrawTextCentered(look, style, box, label);
  return clicked;
}

bool LinkText(const Look& look, const char* id, std::string_view label) {
  TextStyle style = DimOf(look);
  const ImVec2 size = TextSize(look, style, label);
  const bool clicked = ClickArea(id, {std::max(size.x, 1.0f), size.y});
  LogControl(look, "link", id, label);
  if (ImGui::IsItemHovered()) {
    style.color = look.theme.ink.text;
    ImGui::SetMouseCursor(ImGuiMouseCursor_Hand);
  }
  DrawText(look, style, ImGui::GetItemRectMin(), label);
  return clicked;
}

bool IconButton(const Look& look, const char* id, Icon icon, bool enabled, std::string_view tip,
                float size) {
  ImGui::BeginDisabled(!enabled);
  const bool clicked = ClickArea(id, {look.Px(size), look.Px(size)});
  ImGui::EndDisabled();
  LogControl(look, "button", id, tip);
  const ui::Box box = ItemBox();
  const ButtonColors colors = ColorsOfButton(look.theme, Emphasis::kQuiet, StateOf(enabled));
  ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, colors.ground,
                                            look.Px(ui::kSmallRounding));
  DrawIcon(look, icon, box, colors.text);
  if (!tip.empty()) ItemTooltip(look, tip, {});
  return clicked;
}

float ChipMenuWidth(const Look& look, std::string_view label) {
  return ChipWidth(look, label, {.room_right = kArrowRoom});
}

ChipMenuResult DrawChipMenu(const Look& look, const char* id, ImVec2 at, const ChipMenu& menu) {
  ChipMenuResult result;
  result.box = DrawChip(look, at, menu.label, {.room_right = kArrowRoom});
  const float middle = (result.box.y0 + result.box.y1) / 2;
  DrawMenuArrow(look, {result.box.x1 - look.Px(kArrowRoom), middle});
  ImGui::PushID(id);
  ImGui::SetCursorScreenPos({result.box.x0, result.box.y0});
  if (ClickArea("chip", {result.box.x1 - result.box.x0, result.box.y1 - result.box.y0})) {
    ImGui::OpenPopup("options");
  }
  ItemTooltip(look, menu.tip, menu.tip_detail);
  if (ImGui::BeginPopup("options")) {
    for (size_t i = 0; i < menu.options.size(); ++i) {
      const int option = static_cast<int>(i);
      if (ImGui::Selectable(menu.options[i].c_str(), option == menu.chosen)) {
        result.clicked = option;
      }
      LogControl(look, "option", menu.options[i], menu.options[i]);
    }
    ImGui::EndPopup();
  }
  ImGui::PopID();
  return result;
}

}  // namespace shardscope::widgets
