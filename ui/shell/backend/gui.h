// Gui: owns the Dear ImGui context with our fonts. Make it first, destroy it last.
#pragma once

#include "ui/shell/backend/fonts.h"

struct ImGuiContext;

namespace shardscope::shell {

class Gui {
 public:
  Gui();
  ~Gui();
  Gui(const Gui&) = delete;
  Gui& operator=(const Gui&) = delete;

  const LoadedFonts& fonts() const { return fonts_; }

 private:
  ImGuiContext* context_;
  LoadedFonts fonts_;
};

}  // namespace shardscope::shell
