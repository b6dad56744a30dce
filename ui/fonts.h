// Fonts: the three faces that everything is written in. Loaded by ui/shell/backend/fonts.h.
#pragma once

struct ImFont;

namespace shardscope::ui {

struct Fonts {
  ImFont* text = nullptr;  // Roboto, with CJK merged
  ImFont* bold = nullptr;
  ImFont* mono = nullptr;
};

}  // namespace shardscope::ui
