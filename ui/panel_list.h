// PanelList: what each panel is called, and how one asks for it; which window it is drawn in stands
// in ui/shell/panel_windows.cc.
#pragma once

#include <imgui.h>

#include <array>
#include <optional>

#include "ui/text.h"

namespace shardscope::ui {

struct PanelInfo {
  const char* id;  // "timeline": what FocusPanel, the draw log and `shot --panel` call it
  Text title;
  std::optional<Text> command;  // "Show the timeline"; none: actions of its own open it
  ImGuiKeyChord chord = 0;      // 0: only in the palette
  const char* key_name = "";    // as people write it: "Ctrl+1"
  bool types = false;           // the command goes into its field
};

// In the order of their commands in the palette and in the list of keys.
inline constexpr std::array kPanelList = {
    PanelInfo{"timeline", Text::kTabTimeline, Text::kCommandTimeline, ImGuiMod_Ctrl | ImGuiKey_1,
              "Ctrl+1"},
    PanelInfo{"runs", Text::kTabRuns, Text::kCommandRuns, ImGuiMod_Ctrl | ImGuiKey_2, "Ctrl+2"},
    PanelInfo{"log", Text::kTabLog, Text::kCommandLog, ImGuiMod_Ctrl | ImGuiKey_3, "Ctrl+3"},
    PanelInfo{"sql", Text::kTabSql, Text::kCommandSql, ImGuiMod_Ctrl | ImGuiKey_4, "Ctrl+4",
              /*types=*/true},
    PanelInfo{"lessons", Text::kTabLessons, Text::kCommandLessons, ImGuiMod_Ctrl | ImGuiKey_5,
              "Ctrl+5"},
    PanelInfo{"ranks", Text::kTabRanks, Text::kCommandRanks, ImGuiMod_Ctrl | ImGuiKey_6, "Ctrl+6"},
    PanelInfo{"collectives", Text::kTabCollectives, Text::kCommandCollectives,
              ImGuiMod_Ctrl | ImGuiKey_7, "Ctrl+7"},
    PanelInfo{"steps", Text::kTabSteps, Text::kCommandSteps, ImGuiKey_T, "T"},
    PanelInfo{"schedule", Text::kTabSchedule, Text::kCommandSchedule, ImGuiKey_L, "L"},
    PanelInfo{"bookmarks", Text::kTabBookmarks, Text::kCommandBookmarks, ImGuiMod_Ctrl | ImGuiKey_8,
              "Ctrl+8"},
    PanelInfo{"advice", Text::kTabAdvice, Text::kCommandAdvice, ImGuiMod_Ctrl | ImGuiKey_9,
              "Ctrl+9"},
    PanelInfo{"compare", Text::kTabCompare, Text::kCommandCompare, ImGuiKey_V, "V",
              /*types=*/true},
    PanelInfo{"run_control", Text::kTabRunControl, Text::kCommandRunControl},
    PanelInfo{"memory", Text::kTabMemory, Text::kCommandMemory},
    PanelInfo{"overlap", Text::kTabOverlap, Text::kCommandOverlap},
    PanelInfo{"details", Text::kTabDetails, Text::kCommandDetails},
    PanelInfo{"blocks", Text::kTabBlocks, std::nullopt},
};

}  // namespace shardscope::ui
