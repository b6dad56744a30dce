// Dashed lines over the stacks of a rank: what each Schedule in view was predicted to take, and
// engine.memory_limit; each with a label over it, and one for lines that lie near one another.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/timeline/axis.h"

namespace shardscope::panels {

// Where a rank's memory is drawn: from 0 at the bottom to `max_bytes` at the top.
struct MemoryPlot {
  int32_t rank = 0;
  ui::Box box;
  int64_t max_bytes = 1;
};

// What a label takes, and whose it is.
struct LabelSize {
  float line_y = 0;
  float width = 0;
  bool is_left = false;  // alone it stands at the left, else at the right
};

// Where labels may stand. Pixels.
struct LabelField {
  ui::Box bounds;              // that they stay inside
  float height = 0;            // of each
  float gap = 0;               // from any line
  float apart = 0;             // from one to the next in a row
  std::vector<ui::Box> lines;  // all that are drawn, of no height
};

// Labels that stand side by side.
struct LabelRow {
  std::vector<size_t> labels;  // from the left, as their lines from below
  ui::Box box;                 // of all of them
};

// Rows of labels, from the top. Each label stands right over its line. Lines with less room than
// that between them share a row over the highest, so that no label stands beyond a line that is
// another one's alone; where their labels do not fit side by side, the lower ones stand under the
// lowest line. What has no room even so is left out. Depends on lines and widths alone, not on what
// is drawn below: as a run goes on, labels stay. Pure function.
std::vector<LabelRow> PlaceLabels(const std::vector<LabelSize>& labels, const LabelField& field);

// Logs them as "predicted_peak:<rank>", "executed_bound:<rank>" and "memory_limit"; a line whose
// label found no room with its own box and no text of it on screen.
void DrawPlotLines(const ui::Context& context, const timeline::Axis& axis, const MemoryPlot& plot,
                   ui::DrawLog* log);

}  // namespace shardscope::panels
