// Arrow keys of the item that has the keyboard and moves something of its own with them.
#pragma once

#include <imgui.h>

namespace shardscope::widgets {

// Keeps both keys from what they do elsewhere, as moving the focus, while the item that was drawn
// last has the keyboard. -1: `back` was pressed, 1: `on`, 0: neither, or with a modifier, which
// makes it another's.
int TakeArrows(ImGuiKey back, ImGuiKey on);

}  // namespace shardscope::widgets
