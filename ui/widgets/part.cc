#include "ui/widgets/part.h"

#include <imgui_internal.h>

#include <algorithm>

#include "ui/widgets/keys.h"

namespace shardscope::widgets {

Part::Part(const char* id, float height)
    : panel_(ImGui::GetCurrentWindow()), content_end_x_(panel_->DC.CursorMaxPos.x) {
  const ImRect& inner = panel_->InnerRect;
  ImGui::SetCursorScreenPos({inner.Min.x, ImGui::GetCursorScreenPos().y});
  ImGui::PushStyleVar(ImGuiStyleVar_WindowPadding, ImVec2(panel_->WindowPadding.x, 0));
  // Of no height would be as high as there is room.
  ImGui::BeginChild(id, {std::max(inner.GetWidth(), 1.0F), std::max(height, 1.0F)},
                    ImGuiChildFlags_NavFlattened | ImGuiChildFlags_AlwaysUseWindowPadding);
  ImGui::PopStyleVar();
  ImGui::PushOverrideID(panel_->IDStack.back());
}

Part::~Part() {
  ImGui::PopID();
  ImGui::EndChild();
  // It reaches over the panel's padding, which is nothing to scroll to.
  panel_->DC.CursorMaxPos.x = content_end_x_;
}

bool IsPartCut() { return ImGui::GetScrollMaxY() > 0; }

void ShowInMiddle(float top_y, float end_y) {
  const ImGuiWindow& part = *ImGui::GetCurrentWindow();
  if (end_y - top_y < part.InnerRect.GetHeight()) {
    ImGui::SetScrollFromPosY((top_y + end_y) / 2 - part.Pos.y, 0.5F);
  } else {
    ImGui::SetScrollFromPosY(top_y - part.Pos.y, 0);
  }
}

void ScrollByArrows(float pixels) {
  if (!ImGui::IsItemFocused()) return;
  const int way = TakeArrows(ImGuiKey_UpArrow, ImGuiKey_DownArrow);
  if (way != 0) ImGui::SetScrollY(ImGui::GetScrollY() + static_cast<float>(way) * pixels);
}

PlacedParts PlaceTwoParts(const Look& look, const TwoParts& parts) {
  if (ContentWidth() >= look.Px(parts.width + parts.least_width_behind)) {
    return {true, {look.Px(parts.width), 0}, {0, 0}};
  }
  const float room = ImGui::GetContentRegionAvail().y;
  const float first = std::max(room / parts.fraction, look.Px(parts.least_height));
  const float rest = room - first - ImGui::GetStyle().ItemSpacing.y;
  const float least = look.Px(parts.least_height_below);
  return {false, {0, first}, {0, rest < least ? least : 0}};
}

}  // namespace shardscope::widgets
