// What the newest change of a knob did: the same number of steps before and after it. Pure.
#pragma once

#include "trace/analysis/report.h"
#include "ui/context.h"

namespace shardscope::shell {

// At most this many steps on each side: what lies further back may have had other reasons.
inline constexpr int kMaxChangeSteps = 32;

// Whether a marker says that a knob was turned, rather than that the run found a value for `auto`.
bool IsKnobChange(const query::Marker& marker);

ui::ChangeSummary SummarizeChange(const query::Snapshot& snapshot,
                                  const std::vector<analysis::StepBreakdown>& steps);

}  // namespace shardscope::shell
