// DrawBarStack(): a step as a bar of parts one over the other, in Overlap and in the list of runs.
#pragma once

#include <initializer_list>

#include "ui/draw_log.h"
#include "ui/theme.h"

namespace shardscope::widgets {

struct BarPart {
  double ns = 0;
  ui::Color color = 0;
};

// Into the current window, from the bottom of `box` up, of which `tallest_ns` is the height and
// what is more is cut. A box that is wide enough leaves a gap at its right.
void DrawBarStack(const ui::Box& box, double tallest_ns, std::initializer_list<BarPart> parts);

}  // namespace shardscope::widgets
