#include "ui/widgets/keys.h"

#include <imgui_internal.h>

#include <initializer_list>

namespace shardscope::widgets {

int TakeArrows(ImGuiKey back, ImGuiKey on) {
  for (const ImGuiKey key : {back, on}) ImGui::SetKeyOwner(key, ImGui::GetItemID());
  if (ImGui::GetIO().KeyMods != 0) return 0;
  return static_cast<int>(ImGui::IsKeyPressed(on)) - static_cast<int>(ImGui::IsKeyPressed(back));
}

void FocusLastItem() {
  ImGui::FocusItem();
  ImGui::SetNavCursorVisible(true);
}

bool PressesEnter() {
  return ImGui::IsKeyPressed(ImGuiKey_Enter, false) ||
         ImGui::IsKeyPressed(ImGuiKey_KeypadEnter, false);
}

bool IsLeftByEnter() { return ImGui::IsItemDeactivated() && PressesEnter(); }

}  // namespace shardscope::widgets
