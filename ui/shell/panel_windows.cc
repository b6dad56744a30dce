#include "ui/shell/panel_windows.h"

#include <imgui_internal.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "ui/panel_list.h"
#include "ui/panels/advice/advice_panel.h"
#include "ui/panels/blocks/blocks_panel.h"
#include "ui/panels/bookmarks/bookmarks_panel.h"
#include "ui/panels/collectives/collectives_panel.h"
#include "ui/panels/compare/compare_panel.h"
#include "ui/panels/details/details_panel.h"
#include "ui/panels/lessons/lessons_panel.h"
#include "ui/panels/log/log_panel.h"
#include "ui/panels/memory/memory_panel.h"
#include "ui/panels/overlap/overlap_panel.h"
#include "ui/panels/ranks/ranks_panel.h"
#include "ui/panels/run_control/run_control_panel.h"
#include "ui/panels/runs/runs_panel.h"
#include "ui/panels/schedule/schedule_panel.h"
#include "ui/panels/sql/sql_panel.h"
#include "ui/panels/steps/steps_panel.h"
#include "ui/panels/timeline/timeline_panel.h"
#include "ui/theme.h"
#include "ui/widgets/look.h"

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
// For both, of a layout that was left in another window.
constexpr float kMostRestored = 0.7f;

template <typename Panel>
std::unique_ptr<ui::Panel> Make() {
  return std::make_unique<Panel>();
}

// Does not compile for a panel that is not in the list.
template <typename Panel>
constexpr PanelWindow WindowOf(std::string_view id, DockSlot slot) {
  const auto* panel = std::ranges::find_if(
      ui::kPanelList, [id](const ui::PanelInfo& info) { return info.id == id; });
  constexpr bool kHasTable =
      !std::is_same_v<decltype(&Panel::AsTable), decltype(&ui::Panel::AsTable)>;
  return {panel->id, panel->title, slot, kHasTable, Make<Panel>};
}

// All panels, in the order in which they are drawn and tabs stand beside one another.
constexpr std::array kPanels = {
    WindowOf<panels::RunControlPanel>("run_control", DockSlot::kLeft),
    WindowOf<panels::LessonsPanel>("lessons", DockSlot::kLeft),
    WindowOf<panels::TimelinePanel>("timeline", DockSlot::kCenterTop),
    WindowOf<panels::RunsPanel>("runs", DockSlot::kCenterTop),
    WindowOf<panels::SqlPanel>("sql", DockSlot::kCenterTop),
    WindowOf<panels::StepsPanel>("steps", DockSlot::kCenterTop),
    WindowOf<panels::RanksPanel>("ranks", DockSlot::kCenterTop),
    WindowOf<panels::CollectivesPanel>("collectives", DockSlot::kCenterTop),
    WindowOf<panels::SchedulePanel>("schedule", DockSlot::kCenterTop),
    WindowOf<panels::ComparePanel>("compare", DockSlot::kCenterTop),
    WindowOf<panels::BookmarksPanel>("bookmarks", DockSlot::kCenterTop),
    WindowOf<panels::LogPanel>("log", DockSlot::kCenterTop),
    WindowOf<panels::MemoryPanel>("memory", DockSlot::kCenterBottom),
    WindowOf<panels::OverlapPanel>("overlap", DockSlot::kRightTop),
    WindowOf<panels::AdvicePanel>("advice", DockSlot::kRightTop),
    WindowOf<panels::DetailsPanel>("details", DockSlot::kRightBottom),
    WindowOf<panels::BlocksPanel>("blocks", DockSlot::kRightBottom),
};
static_assert(kPanels.size() == ui::kPanelList.size());

// The column that the first window of the slot is docked in; null: in none, or it is not drawn yet.
const ImGuiDockNode* ColumnOf(DockSlot slot) {
  const auto* panel = std::ranges::find(kPanels, slot, &PanelWindow::slot);
  const ImGuiWindow* window =
      ImGui::FindWindowByName(WindowName(*panel, ui::Language::kEnglish).c_str());
  ImGuiDockNode* node = window == nullptr ? nullptr : window->DockNode;
  while (node != nullptr && node->ParentNode != nullptr &&
         node->ParentNode->SplitAxis == ImGuiAxis_Y) {
    node = node->ParentNode;
  }
  const bool is_column = node != nullptr && node->ParentNode != nullptr;
  return is_column && node->Size.x > 0 && node->Size.y > 0 ? node : nullptr;
}

// A window that was remembered behind another tab is in front for its first frames, until its tab
// bar is there.
constexpr int kSettledFrames = 3;

// What lies between a panel's square corner and its rounded edge, in the colour of the window.
void MaskCorner(ImDrawList* list, ImVec2 corner, ImVec2 center, float radius, float angle,
                ImU32 color) {
  list->PathLineTo(corner);
  list->PathArcTo(center, radius, angle, angle + IM_PI / 2, 8);
  list->PathFillConvex(color);
}

// A docked window has square corners; the design has round ones with a hairline.
void DrawRoundedFrame(const widgets::Look& look, const ImGuiWindow& window) {
  ImDrawList* list = window.DrawList;
  const ImVec2 min = window.Pos;
  const ImVec2 max(min.x + window.Size.x, min.y + window.Size.y);
  const float r = look.Px(ui::kRounding);
  const ui::Color outside = look.theme.surface.window;
  list->PushClipRect({min.x - 1, min.y - 1}, {max.x + 1, max.y + 1});
  MaskCorner(list, min, {min.x + r, min.y + r}, r, IM_PI, outside);
  MaskCorner(list, {max.x, min.y}, {max.x - r, min.y + r}, r, IM_PI * 1.5f, outside);
  MaskCorner(list, max, {max.x - r, max.y - r}, r, 0, outside);
  MaskCorner(list, {min.x, max.y}, {min.x + r, max.y - r}, r, IM_PI / 2, outside);
  list->AddRect(min, max, look.theme.surface.line, r, look.Px(1));
  list->PopClipRect();
}

// One accent line under the tab in front, where there is more than one tab.
void DrawTabUnderline(const widgets::Look& look, const ImGuiWindow& window) {
  const ImGuiDockNode* node = window.DockNode;
  if (node == nullptr || node->TabBar == nullptr || node->Windows.Size < 2) return;
  ImGuiTabBar* bar = node->TabBar;
  const ImGuiTabItem* tab = ImGui::TabBarFindTabByID(bar, bar->VisibleTabId);
  if (tab == nullptr) return;
  const float x = bar->BarRect.Min.x + tab->Offset - bar->ScrollingAnim;
  const float y = bar->BarRect.Max.y - look.Px(1);
  const float inset = look.Px(8);
  window.DrawList->PushClipRect(window.Pos, {window.Pos.x + window.Size.x, y + look.Px(4)});
  window.DrawList->AddRectFilled({x + inset, y - look.Px(2)}, {x + tab->Width - inset, y},
                                 look.theme.state.accent);
  window.DrawList->PopClipRect();
}

}  // namespace

bool FitColumns(const ColumnsFor& before, const ColumnsFor& now, WantedColumns* wanted) {
  const ImGuiDockNode* left = ColumnOf(DockSlot::kLeft);
  const ImGuiDockNode* right = ColumnOf(DockSlot::kRightTop);
  const auto width_of = [](const ImGuiDockNode* column) {
    return column == nullptr ? 0 : column->Size.x;
  };
  if (now.width <= 0 || (left == nullptr && right == nullptr)) return false;
  const bool is_restored = before.width <= 0;
  if (is_restored && width_of(left) + width_of(right) <= kMostRestored * now.width) return true;
  const auto fit = [&](const ImGuiDockNode* column, float default_width, float* wanted_width) {
    if (column == nullptr) return;
    const float was_most = kMostColumn * before.width;
    const float edges = 2 * ImGui::GetStyle().DockingSeparatorSize;  // docking takes them off it
    float width = std::min(column->Size.x, kMostColumn * now.width);
    if (!is_restored && column->Size.x > was_most + edges) {  // it was dragged so far
      width = column->Size.x / before.width * now.width;
      *wanted_width = 0;
    } else if (!is_restored) {
      const float was_wanted = std::min(*wanted_width * before.scale, was_most);
      const bool was_dragged = std::abs(column->Size.x - was_wanted) > edges;
      if (*wanted_width <= 0 || was_dragged) {
        // A column that was as wide as it may be would have been wider.
        const bool was_cut = column->Size.x >= was_most - edges;
        *wanted_width = was_cut ? default_width : column->Size.x / before.scale;
      }
      width = std::min(*wanted_width * now.scale, kMostColumn * now.width);
    }
    ImGui::DockBuilderSetNodeSize(column->ID, {width, column->Size.y});
  };
  fit(left, ui::kRunControlWidth, &wanted->left);
  fit(right, ui::kRightColumnWidth, &wanted->right);
  return true;
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

PanelFrames::PanelFrames() {
  for (const PanelWindow& window : kPanels) frames_.push_back({window.make(), false});
}

std::span<const PanelWindow> PanelWindows() { return kPanels; }

std::string WindowName(const PanelWindow& panel, ui::Language language) {
  return std::string(ui::Tr(language, panel.title)) + "###" + panel.id;
}

void PanelFrames::DrawOne(const ui::Context& context, size_t index, ui::DrawLog* log,
                          ui::Commands* commands) {
  const PanelWindow& panel = kPanels[index];
  Frame& frame = frames_[index];
  const widgets::Look look = widgets::LookOf(context);
  const std::string name = WindowName(panel, context.language);
  // The tab takes font and ink from what is current in Begin().
  ImGui::PushFont(look.fonts.bold, ui::kTitleSize);
  ImGui::PushStyleColor(ImGuiCol_Text, frame.in_front ? look.theme.ink.text : look.theme.ink.dim);
  // Of each slot the first panel is in front until another is asked for.
  const bool visible = ImGui::Begin(
      name.c_str(), nullptr, ImGuiWindowFlags_NoCollapse | ImGuiWindowFlags_NoFocusOnAppearing);
  ImGui::PopStyleColor();
  ImGui::PopFont();
  frame.in_front = visible;
  if (visible) {
    if (ImGui::IsWindowFocused(ImGuiFocusedFlags_ChildWindows)) {
      focused_ = panel.id;
      has_keyboard_ = true;
    }
    log->SetPanel(panel.id);
    frame.panel->Draw(context, log, commands);
    const ImGuiWindow& window = *ImGui::GetCurrentWindow();
    DrawTabUnderline(look, window);
    if (window.DockIsActive) DrawRoundedFrame(look, window);
  }
  ImGui::End();
}

void PanelFrames::Raise(std::string_view id) {
  ImGuiWindow* window = ImGui::FindWindowByName(("###" + std::string(id)).c_str());
  const ImGuiDockNode* node = window == nullptr ? nullptr : window->DockNode;
  if (node == nullptr || node->TabBar == nullptr) return;
  node->TabBar->SelectedTabId = window->TabId;
  // Dear ImGui keeps the window in front that has the keyboard.
  const ImGuiWindow* focused = ImGui::GetCurrentContext()->NavWindow;
  if (focused != nullptr && focused->RootWindow->DockNode == node) ImGui::FocusWindow(window);
}

bool PanelFrames::IsInFront(std::string_view id) const {
  for (size_t i = 0; i < kPanels.size(); ++i) {
    if (id == kPanels[i].id) return frames_[i].in_front;
  }
  return false;
}

ui::TableMaker PanelFrames::TableOf(std::string_view id, const ui::Context& context) const {
  for (size_t i = 0; i < kPanels.size(); ++i) {
    if (id == kPanels[i].id) return frames_[i].panel->AsTable(context);
  }
  return nullptr;
}

bool PanelFrames::IsUnder(std::string_view id, ImVec2 at) const {
  if (!IsInFront(id)) return false;
  const ImGuiWindow* window = ImGui::FindWindowByName(("###" + std::string(id)).c_str());
  return window != nullptr && window->Rect().Contains(at);
}

bool PanelFrames::Draw(const ui::Context& context, const std::string& focus, ui::DrawLog* log,
                       ui::Commands* commands) {
  has_keyboard_ = false;
  bool shown = true;  // where no panel is asked for, too
  for (size_t i = 0; i < kPanels.size(); ++i) {
    const bool focused = focus == kPanels[i].id;
    const bool was_in_front = frames_[i].in_front;
    if (focused && focused_frames_ == 0) ImGui::SetNextWindowFocus();
    DrawOne(context, i, log, commands);
    if (!focused) continue;
    focused_frames_ = was_in_front && frames_[i].in_front ? focused_frames_ + 1 : 0;
    shown = focused_frames_ >= kSettledFrames;
  }
  if (shown) focused_frames_ = 0;
  return shown;
}

}  // namespace shardscope::shell
