#include "ui/widgets/tooltip.h"

#include <imgui_internal.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "ui/boxes.h"

namespace shardscope::widgets {
namespace {

constexpr float kWrapWidth = 320;
constexpr float kPaddingX = 10;
constexpr float kPaddingY = 8;
constexpr float kLineGap = 4;
constexpr float kDistance = 14;  // from the mouse

ui::Box BoxAt(ImVec2 at, ImVec2 size) { return {at.x, at.y, at.x + size.x, at.y + size.y}; }

ImVec2 WrappedSize(const Look& look, const TextStyle& style, std::string_view text) {
  if (text.empty()) return {0, 0};
  const ImVec2 size = style.font->CalcTextSizeA(look.Px(style.size), FLT_MAX, look.Px(kWrapWidth),
                                                text.data(), text.data() + text.size());
  return {std::ceil(size.x), std::ceil(size.y)};
}

void DrawWrapped(const Look& look, const TextStyle& style, ImVec2 at, std::string_view text) {
  ImGui::GetForegroundDrawList()->AddText(style.font, look.Px(style.size), at, style.color,
                                          text.data(), text.data() + text.size(),
                                          look.Px(kWrapWidth));
}

}  // namespace

ImVec2 PlaceTooltip(ImVec2 mouse, float distance, ImVec2 size, const ui::Box& bounds,
                    std::span<const ui::Box> clear_of) {
  // Under the mouse and right of it, else on another side of it or of what must stay visible.
  std::vector<ui::Box> blocked = {{mouse.x, mouse.y, mouse.x + distance / 2, mouse.y + distance}};
  blocked.insert(blocked.end(), clear_of.begin(), clear_of.end());
  std::vector<ImVec2> places;
  for (const ui::Box& box : blocked) {
    const float right = std::max(mouse.x, box.x0) + distance;
    const float left = std::min(mouse.x, box.x1) - distance - size.x;
    for (const float x : {right, left}) {
      places.push_back({x, box.y1 + distance / 2});
      places.push_back({x, box.y0 - distance / 2 - size.y});
    }
    places.push_back({box.x1 + distance / 2, mouse.y + distance});
    places.push_back({box.x0 - distance / 2 - size.x, mouse.y + distance});
  }
  const auto inside = [&](ImVec2 at) {
    return ImVec2(std::clamp(at.x, bounds.x0, std::max(bounds.x0, bounds.x1 - size.x)),
                  std::clamp(at.y, bounds.y0, std::max(bounds.y0, bounds.y1 - size.y)));
  };
  const ImVec2* best = nullptr;
  float best_distance = 0;
  for (ImVec2& place : places) {
    place = inside(place);
    const ui::Box box = BoxAt(place, size);
    const bool free = std::none_of(blocked.begin(), blocked.end(), [&](const ui::Box& other) {
      return ui::Intersects(box, other);
    });
    const float x = std::max({box.x0 - mouse.x, mouse.x - box.x1, 0.0F});
    const float y = std::max({box.y0 - mouse.y, mouse.y - box.y1, 0.0F});
    const float away = std::hypot(x, y);
    // Of about equally near ones the first: it does not jump from side to side.
    if (!free || (best != nullptr && away + 2 * distance > best_distance)) continue;
    best = &place;
    best_distance = away;
  }
  return best == nullptr ? places.front() : *best;
}

ui::Box TooltipAt(const Look& look, ImVec2 point, std::string_view title, std::string_view detail,
                  Color border, std::span<const ui::Box> clear_of) {
  const TextStyle title_style = detail.empty() ? TextOf(look) : BoldOf(look);
  const TextStyle detail_style = DimOf(look);
  const std::string title_lines = WithLineBreaks(look, title_style, title, look.Px(kWrapWidth));
  const std::string detail_lines = WithLineBreaks(look, detail_style, detail, look.Px(kWrapWidth));
  const ImVec2 title_size = WrappedSize(look, title_style, title_lines);
  const ImVec2 detail_size = WrappedSize(look, detail_style, detail_lines);
  const float gap = detail.empty() ? 0 : look.Px(kLineGap);
  const ImVec2 size(std::max(title_size.x, detail_size.x) + 2 * look.Px(kPaddingX),
                    title_size.y + gap + detail_size.y + 2 * look.Px(kPaddingY));
  const ImGuiViewport* viewport = ImGui::GetMainViewport();
  const ui::Box bounds = ToBox(
      viewport->Pos, {viewport->Pos.x + viewport->Size.x, viewport->Pos.y + viewport->Size.y});
  std::vector<ui::Box> blocked(clear_of.begin(), clear_of.end());
  const ImGuiWindow* notice = ImGui::FindWindowByName(kNoticeWindow);
  if (notice != nullptr && notice->WasActive) {
    blocked.push_back(ToBox(notice->Rect().Min, notice->Rect().Max));
  }
  const ImVec2 place = PlaceTooltip(point, look.Px(kDistance), size, bounds, blocked);
  const ui::Box box = BoxAt({std::round(place.x), std::round(place.y)}, size);
  ImDrawList* list = ImGui::GetForegroundDrawList();
  const float rounding = look.Px(ui::kSmallRounding);
  list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, look.theme.surface.raised, rounding);
  list->AddRect({box.x0, box.y0}, {box.x1, box.y1}, border, rounding, look.Px(1));
  const ImVec2 at(box.x0 + look.Px(kPaddingX), box.y0 + look.Px(kPaddingY));
  DrawWrapped(look, title_style, at, title_lines);
  if (!detail.empty()) {
    DrawWrapped(look, detail_style, {at.x, at.y + title_size.y + gap}, detail_lines);
  }
  if (look.log != nullptr) {
    std::string text(title);
    if (!detail.empty()) text.append("\n").append(detail);
    look.log->Text("tooltip", text, box);
  }
  return box;
}

ui::Box Tooltip(const Look& look, std::string_view title, std::string_view detail, Color border,
                std::span<const ui::Box> clear_of) {
  return TooltipAt(look, ImGui::GetIO().MousePos, title, detail, border, clear_of);
}

void ItemTooltip(const Look& look, std::string_view title, std::string_view detail) {
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip | ImGuiHoveredFlags_AllowWhenDisabled)) {
    return;
  }
  const bool by_key = ImGui::GetIO().NavVisible && ImGui::IsItemFocused();
  const ImVec2 under_item(ImGui::GetItemRectMin().x, ImGui::GetItemRectMax().y);
  TooltipAt(look, by_key ? under_item : ImGui::GetIO().MousePos, title, detail,
            look.theme.surface.line);
}

void BoxTooltip(const Look& look, const ui::Box& box, std::string_view title,
                std::string_view detail) {
  constexpr ImGuiHoveredFlags kWindow = ImGuiHoveredFlags_RootAndChildWindows |
                                        ImGuiHoveredFlags_DockHierarchy |
                                        ImGuiHoveredFlags_NoPopupHierarchy;
  if (!ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, box.y1}, false)) return;
  if (ImGui::IsWindowHovered(kWindow)) Tooltip(look, title, detail, look.theme.surface.line);
}

}  // namespace shardscope::widgets
