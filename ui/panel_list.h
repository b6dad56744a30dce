// kPanelList: what each panel is called, where it is docked, and how one asks for it: the rows of
// ui/panel_list.inc. Its class stands in the same row (ui/shell/panel_windows.cc).
#pragma once

#include <imgui.h>

#include <array>
#include <optional>

#include "ui/text.h"

namespace shardscope::ui {

enum class DockSlot { kLeft, kCenterTop, kCenterBottom, kRightTop, kRightBottom };

// What a picture of the panel is made of where the trace is a large finished one.
enum class PanelRows { kRowsInView, kAllRows };

struct PanelInfo {
  const char* id;  // "timeline": what FocusPanel, the draw log and `shot --panel` call it
  Text title;
  DockSlot slot;
  PanelRows rows;
  std::optional<Text> command;  // "Show the timeline"; none: actions of its own open it
  ImGuiKeyChord chord = 0;      // 0: only in the palette
  const char* key_name = "";    // as people write it: "Ctrl+1"
  bool types = false;           // the command goes into its field
};

inline constexpr bool kTypes = true;

// In the order in which they are drawn and tabs stand beside one another.
inline constexpr std::array kPanelList = {
#define SHARDSCOPE_PANEL(id, Name, slot, rows, ...) \
  PanelInfo{#id, Text::kTab##Name, DockSlot::slot, PanelRows::rows, __VA_ARGS__},
#include "ui/panel_list.inc"
#undef SHARDSCOPE_PANEL
};

}  // namespace shardscope::ui
