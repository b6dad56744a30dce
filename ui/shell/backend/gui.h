// Gui: owns the Dear ImGui context with our fonts. Make it first, destroy it last.
#pragma once

#include <cstdint>
#include <string>

#include "ui/theme.h"

struct ImDrawData;
struct ImFont;
struct ImGuiContext;

namespace shardscope::shell {

struct LoadedFonts {
  ui::Fonts fonts;
  bool has_cjk = false;  // false: Chinese would be drawn as boxes
};

// One of the three, for what writes text by other means than Dear ImGui's.
struct FontFace {
  const char* family = "";
  bool bold = false;
  float line = 1;  // height of a line, of the em
};
const FontFace& FaceOf(const ImFont& font);
// Into the current Dear ImGui context. CJK comes from the system at run time (19 MB, so not
// embedded) and is opened only when it is there; glyphs are rasterised when first drawn.
LoadedFonts LoadFonts();

// The system's CJK file with a Simplified Chinese face, or empty.
std::string FindCjkFont(bool bold);

// Where frames go. The shell draws the same into a window, into a headless picture, or
// into nothing (tests). UI thread only; the Dear ImGui context must exist before a surface is made
// and outlive it.
class Surface {
 public:
  virtual ~Surface() = default;

  // Events in, ImGui::NewFrame() ready to be called.
  virtual void BeginFrame() = 0;
  // After ImGui::Render().
  virtual void EndFrame() = 0;
};

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

// ImGui::NewFrame(), except that the release of a key waits for the next frame if this one has a
// press, a click or a wheel before it, and a press of the mouse if this one moves it: Dear ImGui
// would take them in together, and of Ctrl+T tapped while a slow frame was drawn see a T without
// Ctrl, of a click on what it has not seen the mouse over (rows and heads of tables) nothing.
void NewFrame();

// Whether there is input that NewFrame() has not taken in yet. A modifier alone is none: it changes
// nothing until the key that it belongs to, whose frame would have to wait for that of the
// modifier.
bool HasInput();

// The same for two frames that look the same: textures aside, of every byte that is drawn.
uint64_t HashOf(const ImDrawData& data);

// Dear ImGui's own style from the theme, so that nothing of its default grey is left.
void ApplyStyle(const ui::Theme& theme, float scale);

}  // namespace shardscope::shell
