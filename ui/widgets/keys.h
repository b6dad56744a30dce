// Keys of the item that has the keyboard.
#pragma once

#include <imgui.h>

namespace shardscope::widgets {

// Keeps both keys from what they do elsewhere, as moving the focus, while the item that was drawn
// last has the keyboard. -1: `back` was pressed, 1: `on`, 0: neither, or with a modifier, which
// makes it another's.
int TakeArrows(ImGuiKey back, ImGuiKey on);

// Gives the keyboard to the item that was drawn last, and shows so; it is not clicked.
void FocusLastItem();

// Whether Enter is pressed, of the letters or of the numbers; one that is held counts once.
bool PressesEnter();

// Whether Enter has just left the field that was drawn last.
bool IsLeftByEnter();

}  // namespace shardscope::widgets
