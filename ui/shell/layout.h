// The dock layout: the default one, and resetting to it.
#pragma once

#include <imgui.h>

namespace shardscope::shell {

// Part of the name of the layout file: raise it when the default layout changes, so that old files
// are not used.
inline constexpr int kLayoutVersion = 1;

enum class DockSlot { kLeft, kCenterTop, kCenterBottom, kRightTop, kRightBottom };

// Splits the dock space as in the default layout and puts every panel of panel_windows.h into its
// slot.
void BuildDefaultLayout(ImGuiID dock_space, ImVec2 size, float scale);

// The left and the right column grow and shrink with the text in them, wherever their edges were
// dragged to, and leave the timeline its part of `width`.
void ScaleColumns(float width, float old_scale, float new_scale);

}  // namespace shardscope::shell
