// Loads the three faces into the current Dear ImGui context. CJK comes from the system at run time
// (19 MB, so not embedded) and is opened only when it is there; glyphs are rasterised when first
// drawn.
#pragma once

#include <string>

#include "ui/fonts.h"

namespace shardscope::shell {

struct LoadedFonts {
  ui::Fonts fonts;
  bool has_cjk = false;  // false: Chinese would be drawn as boxes
};
LoadedFonts LoadFonts();

// The system's CJK file with a Simplified Chinese face, or empty.
std::string FindCjkFont(bool bold);

}  // namespace shardscope::shell
