#include "ui/shell/backend/style.h"

#include <imgui.h>

namespace shardscope::shell {
namespace {

ImVec4 ToVec4(ui::Color color) { return ImGui::ColorConvertU32ToFloat4(color); }

void ApplySizes(ImGuiStyle* style) {
  style->WindowPadding = {ui::kPanelPadding, 8};
  style->FramePadding = {7, 7};
  style->ItemSpacing = {8, 6};
  style->ItemInnerSpacing = {6, 4};
  style->WindowRounding = ui::kRounding;
  style->ChildRounding = 0;
  style->FrameRounding = ui::kSmallRounding;
  style->PopupRounding = ui::kRounding;
  style->ScrollbarRounding = 4;
  style->ScrollbarSize = 8;
  style->GrabRounding = 4;
  style->TabRounding = 0;
  style->WindowBorderSize = 0;
  style->ChildBorderSize = 0;
  style->PopupBorderSize = 1;
  style->FrameBorderSize = 0;
  style->TabBorderSize = 0;
  style->TabBarBorderSize = 0;
  style->TabBarOverlineSize =
      0;  // the accent line stands under the tab; ui/shell/panel_frame.cc draws it
  style->DockingSeparatorSize = ui::kGrid;
  style->WindowMenuButtonPosition = ImGuiDir_None;
  style->DisabledAlpha = 1;  // widgets choose their disabled ink themselves
}

void ApplyTabColors(const ui::Theme& theme, ImVec4* colors) {
  const ImVec4 panel = ToVec4(theme.surface.panel);
  for (const ImGuiCol tab : {ImGuiCol_Tab, ImGuiCol_TabHovered, ImGuiCol_TabSelected,
                             ImGuiCol_TabDimmed, ImGuiCol_TabDimmedSelected,
                             ImGuiCol_TabSelectedOverline, ImGuiCol_TabDimmedSelectedOverline,
                             ImGuiCol_TitleBg, ImGuiCol_TitleBgActive, ImGuiCol_TitleBgCollapsed}) {
    colors[tab] = panel;
  }
}

}  // namespace

void ApplyStyle(const ui::Theme& theme, float scale) {
  ImGuiStyle& style = ImGui::GetStyle();
  style = ImGuiStyle();
  style.FontSizeBase = ui::kTextSize;
  ApplySizes(&style);
  style.ScaleAllSizes(scale);
  style.FontScaleMain = scale;
  ImVec4* colors = style.Colors;
  const ImVec4 clear(0, 0, 0, 0);
  colors[ImGuiCol_Text] = ToVec4(theme.ink.text);
  colors[ImGuiCol_TextDisabled] = ToVec4(theme.ink.faint);
  colors[ImGuiCol_WindowBg] = ToVec4(theme.surface.panel);
  colors[ImGuiCol_ChildBg] = clear;
  colors[ImGuiCol_PopupBg] = ToVec4(theme.surface.raised);
  // Dear ImGui paints the gaps between docked panels with the border's colour; what has a border
  // pushes its own.
  colors[ImGuiCol_Border] = ToVec4(theme.surface.window);
  colors[ImGuiCol_FrameBg] = ToVec4(theme.surface.button);
  colors[ImGuiCol_FrameBgHovered] = ToVec4(theme.surface.hovered);
  colors[ImGuiCol_FrameBgActive] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_ScrollbarBg] = clear;
  colors[ImGuiCol_ScrollbarGrab] = ToVec4(theme.surface.line);
  colors[ImGuiCol_ScrollbarGrabHovered] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_ScrollbarGrabActive] = ToVec4(theme.ink.faint);
  colors[ImGuiCol_CheckMark] = ToVec4(theme.ink.text);
  colors[ImGuiCol_Button] = ToVec4(theme.surface.button);
  colors[ImGuiCol_ButtonHovered] = ToVec4(theme.surface.hovered);
  colors[ImGuiCol_ButtonActive] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_Header] = ToVec4(theme.surface.button);
  colors[ImGuiCol_HeaderHovered] = ToVec4(theme.surface.hovered);
  colors[ImGuiCol_HeaderActive] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_Separator] = ToVec4(theme.surface.window);
  colors[ImGuiCol_SeparatorHovered] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_SeparatorActive] = ToVec4(theme.state.accent);
  colors[ImGuiCol_ResizeGrip] = clear;
  colors[ImGuiCol_ResizeGripHovered] = ToVec4(theme.surface.chosen);
  colors[ImGuiCol_ResizeGripActive] = ToVec4(theme.state.accent);
  colors[ImGuiCol_DockingPreview] = ToVec4(ui::WithAlpha(theme.state.accent, 0.4f));
  colors[ImGuiCol_DockingEmptyBg] = ToVec4(theme.surface.window);
  colors[ImGuiCol_TextSelectedBg] = ToVec4(ui::WithAlpha(theme.state.accent, 0.35f));
  colors[ImGuiCol_NavCursor] = ToVec4(theme.state.accent);
  colors[ImGuiCol_InputTextCursor] = ToVec4(theme.ink.text);
  colors[ImGuiCol_ModalWindowDimBg] = ToVec4(ui::WithAlpha(theme.surface.window, 0.6f));
  ApplyTabColors(theme, colors);
}

}  // namespace shardscope::shell
