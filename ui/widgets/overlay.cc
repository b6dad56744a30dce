#include "ui/widgets/overlay.h"

#include <algorithm>

#include "ui/widgets/buttons.h"

namespace shardscope::widgets {
namespace {

constexpr float kOverlayRowHeight = 26;

}  // namespace

OverlayPlace InTheMiddle(float width) {
  return {.at = ImGui::GetMainViewport()->GetCenter(), .pivot = {0.5f, 0.5f}, .width = width};
}

OverlayWindow::OverlayWindow(const Look& look, const char* id, const OverlayPlace& place) {
  const ImVec2 screen = ImGui::GetMainViewport()->Size;
  const float width = std::min(look.Px(place.width), screen.x);
  ImGui::SetNextWindowPos(place.at, ImGuiCond_Always, place.pivot);
  ImGui::SetNextWindowSize({width, std::min(look.Px(place.height), screen.y)});
  ImGui::SetNextWindowSizeConstraints({width, 0}, {width, screen.y});
  ImGui::PushStyleColor(ImGuiCol_WindowBg, look.theme.surface.raised);
  ImGui::PushStyleColor(ImGuiCol_Border, look.theme.surface.line);
  ImGui::PushStyleVar(ImGuiStyleVar_WindowBorderSize, look.Px(1));
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(look.Px(16), look.Px(14)));
  // No title bar, but a scroll bar where the window is higher than the screen.
  ImGui::Begin(id, nullptr,
               ImGuiWindowFlags_NoTitleBar | ImGuiWindowFlags_NoResize |
                   ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoDocking |
                   ImGuiWindowFlags_NoSavedSettings | ImGuiWindowFlags_NoMove);
}

OverlayWindow::~OverlayWindow() {
  ImGui::End();
  ImGui::PopStyleVar(2);
  ImGui::PopStyleColor(2);
}

bool OverlayWindow::IsLeft() const {
  // Also while the click holds a button in it.
  const bool hovered = ImGui::IsWindowHovered(ImGuiHoveredFlags_RootAndChildWindows |
                                              ImGuiHoveredFlags_AllowWhenBlockedByActiveItem);
  const bool clicked_elsewhere = ImGui::IsMouseClicked(ImGuiMouseButton_Left) && !hovered;
  return clicked_elsewhere || ImGui::IsKeyPressed(ImGuiKey_Escape);
}

bool MenuRow(const Look& look, const char* title, std::string_view key, bool marked) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 size(ContentWidth(), look.Px(kOverlayRowHeight));
  const bool clicked = ClickArea(title, size);
  ItemGround(look, look.theme.surface.chosen, marked);
  const float pad = look.Px(8);
  const ImVec2 text(at.x + pad, at.y + look.Px(6));
  const float key_width = key.empty() ? 0 : TextSize(look, MonoOf(look), key).x + pad;
  DrawTextClipped(look, TextOf(look), text, size.x - 2 * pad - key_width, title);
  DrawTextRight(look, MonoOf(look), {at.x + size.x - pad, text.y}, key);
  return clicked;
}

}  // namespace shardscope::widgets
