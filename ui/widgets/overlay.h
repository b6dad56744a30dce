// Overlay: a window over everything else, that a click elsewhere or Escape leaves, and the rows of
// a menu in it.
#pragma once

#include <string_view>

#include "ui/widgets/look.h"

namespace shardscope::widgets {

struct OverlayPlace {
  ImVec2 at;              // pixels
  ImVec2 pivot = {0, 0};  // the point of the window that stands there, as a share of its size
  float width = 0;        // at scale 1; no wider than the screen
  float height = 0;       // at scale 1; 0: what the content needs
};
OverlayPlace InTheMiddle(float width);  // at scale 1

// From construction to destruction the current window.
class OverlayWindow {
 public:
  OverlayWindow(const Look& look, const char* id, const OverlayPlace& place);
  ~OverlayWindow();
  OverlayWindow(const OverlayWindow&) = delete;
  OverlayWindow& operator=(const OverlayWindow&) = delete;

  // Whether this frame has a click elsewhere or Escape.
  bool IsLeft() const;
};

// A line that can be clicked, with its key at the right; `marked` as if hovered.
bool MenuRow(const Look& look, const char* title, std::string_view key, bool marked = false);

}  // namespace shardscope::widgets
