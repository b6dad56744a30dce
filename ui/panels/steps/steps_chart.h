// The chart of the panel Steps: how long each step took with what of it was exposed, and its loss,
// over one axis of steps, with dashed lines where something was changed, and with a cross on top
// where an update was skipped or the run failed.
#pragma once

#include <imgui.h>

#include <cstddef>
#include <vector>

#include "trace/analysis/steps/step_table.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {

// Neighbouring steps that share a bar.
struct StepBar {
  size_t first = 0;  // indices of rows
  size_t last = 0;
  size_t slowest = 0;         // the row with the longest step
  double exposed_ns = 0;      // of that row, the mean of its ranks
  double loss = 0;            // of the last row that has one; NaN: none has
  bool has_change = false;    // of a knob
  bool has_incident = false;  // an error or a skipped update
};

// As many as fit into `most`, at least one row each.
std::vector<StepBar> MakeStepBars(const std::vector<analysis::StepRow>& rows, size_t most);

// What the longest bar stands for: warm-up may be cut. 0 without rows.
int64_t LongestStep(const std::vector<analysis::StepRow>& rows);

// In less there is no room for it; pixels.
ImVec2 LeastStepsChart(const widgets::Look& look);

// Fills the box. A click leads to the step. `rows` is not empty.
void DrawStepsChart(const ui::Context& context, const std::vector<analysis::StepRow>& rows,
                    const ui::Box& box, ui::DrawLog* log, ui::Commands* commands);

}  // namespace shardscope::panels
