// Actions: every command that has a name, with its key: what the palette lists, the key list shows
// and the shell listens for.
#pragma once

#include <imgui.h>

#include <span>

#include "ui/context.h"
#include "ui/text.h"

namespace shardscope::ui {

struct Action {
  Text title;
  ImGuiKeyChord chord = 0;    // 0: only in the palette
  const char* key_name = "";  // as people write it: "Ctrl+P"
  Commands (*make)(const Context&);
  ImGuiKeyChord also = 0;  // a second chord that does the same; in key_name, too
};
std::span<const Action> AllActions();

// Keys that are no commands of their own: wheel, drag, click.
struct AxisKey {
  Text what;
  Text key;
};
std::span<const AxisKey> AxisKeys();

}  // namespace shardscope::ui
