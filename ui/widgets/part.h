// Part: a stretch of a panel that scrolls by itself; and places of two child windows of a panel.
#pragma once

#include <imgui.h>

#include "ui/widgets/look.h"

struct ImGuiWindow;

namespace shardscope::widgets {

// What is drawn until its end stands in it, `height` pixels from the cursor on and as wide as the
// panel. Ids are those that items of the panel itself would have, and the keyboard goes in and out
// as if there were no parts. One at a time.
class Part {
 public:
  Part(const char* id, float height);
  ~Part();
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

 private:
  ImGuiWindow* panel_;
  float content_end_x_;  // of the panel, before
};

// In a part: whether not all of it is in view.
bool IsPartCut();

// In a part: what it shows from the next frame on: all of `top_y` to `end_y` of the screen, in its
// middle where it can be; from the top where there is more than it has room for.
void ShowInMiddle(float top_y, float end_y);

// In a part, of what was drawn last: while it has the keyboard, up and down scroll by `pixels`.
void ScrollByArrows(float pixels);

// Of two child windows that share what is left of a panel, at scale 1.
struct TwoParts {
  float width = 0;               // of the first, beside the second
  float least_width_behind = 0;  // of the second: where less is left, it stands under the first
  float fraction = 2;            // the first then has one of so many parts of the height,
  float least_height = 0;        // and at least this
  float least_height_below = 0;  // of the second
};
struct PlacedParts {
  bool beside = true;
  ImVec2 first;  // sizes for ImGui::BeginChild()
  ImVec2 second;
};
PlacedParts PlaceTwoParts(const Look& look, const TwoParts& parts);

}  // namespace shardscope::widgets
