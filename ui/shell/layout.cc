#include "ui/shell/layout.h"

#include <imgui_internal.h>

#include <algorithm>

#include "ui/shell/panel_windows.h"
#include "ui/theme.h"

namespace shardscope::shell {
namespace {

constexpr float kMemoryShare = 0.345f;   // of the centre's height
constexpr float kOverlapShare = 0.395f;  // of the right column's height
// The chart with its legend and the first rows of the top stalls; of a low window at most this
// share.
constexpr float kLeastOverlap = 250;
constexpr float kMostOverlapShare = 0.66f;
// Of a narrow window's width, for the left and the right column each: the timeline keeps the rest.
constexpr float kMostColumn = 0.27f;

// The column that the window is docked in; null: in none.
ImGuiDockNode* ColumnOf(const PanelWindow& panel) {
  const ImGuiWindow* window =
      ImGui::FindWindowByName(WindowName(panel, ui::Language::kEnglish).c_str());
  ImGuiDockNode* node = window == nullptr ? nullptr : window->DockNode;
  while (node != nullptr && node->ParentNode != nullptr &&
         node->ParentNode->SplitAxis == ImGuiAxis_Y) {
    node = node->ParentNode;
  }
  return node == nullptr || node->ParentNode == nullptr ? nullptr : node;
}

}  // namespace

void ScaleColumns(float width, float old_scale, float new_scale) {
  const auto scale_column = [=](DockSlot slot, float default_width) {
    const auto panel = std::ranges::find(PanelWindows(), slot, &PanelWindow::slot);
    const ImGuiDockNode* column = panel == PanelWindows().end() ? nullptr : ColumnOf(*panel);
    if (column == nullptr) return;
    // A column that was as wide as it may be would have been wider.
    const bool was_cut = column->Size.x >= kMostColumn * width - 1;
    const float wanted = was_cut ? default_width : column->Size.x / old_scale;
    ImGui::DockBuilderSetNodeSize(
        column->ID, {std::min(wanted * new_scale, kMostColumn * width), column->Size.y});
  };
  scale_column(DockSlot::kLeft, ui::kRunControlWidth);
  scale_column(DockSlot::kRightTop, ui::kRightColumnWidth);
}

void BuildDefaultLayout(ImGuiID dock_space, ImVec2 size, float scale) {
  ImGui::DockBuilderRemoveNode(dock_space);
  ImGui::DockBuilderAddNode(dock_space, ImGuiDockNodeFlags_DockSpace);
  ImGui::DockBuilderSetNodeSize(dock_space, size);
  // Splitting shares what is left after the separator; the columns keep their width on any window
  // that is not narrow.
  const float width = std::max(size.x, 1.0f);
  const float left_width = std::min(ui::kRunControlWidth * scale, kMostColumn * width);
  const float right_width = std::min(ui::kRightColumnWidth * scale, kMostColumn * width);
  const float overlap_share =
      std::clamp(kLeastOverlap * scale / std::max(size.y, 1.0f), kOverlapShare, kMostOverlapShare);
  ImGuiID rest = dock_space;
  ImGuiID nodes[5] = {};
  const auto node = [&nodes](DockSlot slot) -> ImGuiID& { return nodes[static_cast<int>(slot)]; };
  node(DockSlot::kLeft) =
      ImGui::DockBuilderSplitNode(rest, ImGuiDir_Left, left_width / width, nullptr, &rest);
  node(DockSlot::kRightTop) = ImGui::DockBuilderSplitNode(
      rest, ImGuiDir_Right, right_width / std::max(width - left_width, 1.0f), nullptr, &rest);
  node(DockSlot::kCenterBottom) =
      ImGui::DockBuilderSplitNode(rest, ImGuiDir_Down, kMemoryShare, nullptr, &rest);
  node(DockSlot::kCenterTop) = rest;
  node(DockSlot::kRightBottom) =
      ImGui::DockBuilderSplitNode(node(DockSlot::kRightTop), ImGuiDir_Down, 1 - overlap_share,
                                  nullptr, &node(DockSlot::kRightTop));
  for (const PanelWindow& panel : PanelWindows()) {
    ImGui::DockBuilderDockWindow(WindowName(panel, ui::Language::kEnglish).c_str(),
                                 node(panel.slot));
  }
  ImGui::DockBuilderFinish(dock_space);
}

}  // namespace shardscope::shell
