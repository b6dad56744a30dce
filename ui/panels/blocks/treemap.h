// Treemap: a box divided into tiles whose areas are as their weights, as square as may be
// (Bruls, Huizing, van Wijk: Squarified Treemaps, 2000). Pure function.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "ui/draw_log.h"

namespace shardscope::panels {

// A tile for each weight, in their order; `weights` are descending and not negative. Tiles touch
// and cover `box`; those of weight 0 are empty, and so are all if every weight is.
std::vector<ui::Box> Treemap(std::span<const int64_t> weights, const ui::Box& box);

}  // namespace shardscope::panels
