// What drawing the panel Compare needs, for one frame.
#pragma once

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/panel_frame.h"
#include "ui/text.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

// What columns of its tables have room for; the last of them is the bar's, at scale 1.
inline constexpr const char* kWidestTime = "88.8 ms";
inline constexpr const char* kWidestDifference = "+88.8 ms";
inline constexpr float kLeastDifferenceBar = 84;

struct CompareFrame : PanelFrame {
  const analysis::Comparison& comparison() const { return context.compare.made->comparison; }
};

// In the next column, and logged there: a number at the right.
void NumberCell(const CompareFrame& frame, const std::string& id, const std::string& text,
                double value);

// From the middle of `box` to the right for what is slower, hatched, and to the left for what is
// faster: side and pattern say so without colour. `share`: of half of the box, -1 to 1.
void DrawDifferenceBar(const CompareFrame& frame, const ui::Box& box, double share);

}  // namespace shardscope::panels
