// What drawing the panel Compare needs, for one frame.
#pragma once

#include <string>

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

// In the next three columns, and logged there: the time of A, of B, and their difference.
// `prefix`: of the ids in the log, which end with `name`.
void DeltaCells(const CompareFrame& frame, const std::string& prefix, const std::string& name,
                const analysis::Delta& delta);

// In the next column: from the middle to the right for what is slower, hatched, and to the left for
// what is faster: side and pattern say so without colour. `most_ns`: fills half of the cell.
void DifferenceBarCell(const CompareFrame& frame, const analysis::Delta& delta, double most_ns);

}  // namespace shardscope::panels
