// What is asked of two boxes on the screen.
#pragma once

#include "ui/draw_log.h"

namespace shardscope::ui {

// Whether they have pixels in common; boxes that only touch have none.
inline bool Intersects(const Box& a, const Box& b) {
  return a.x0 < b.x1 && b.x0 < a.x1 && a.y0 < b.y1 && b.y0 < a.y1;
}

}  // namespace shardscope::ui
