// What the newest change of a knob did, as analysis::EffectsOfChanges() says, and to memory. Pure.
#pragma once

#include "trace/analysis/report.h"
#include "ui/context.h"

namespace shardscope::shell {

ui::ChangeSummary SummarizeChange(const query::Snapshot& snapshot,
                                  const std::vector<analysis::StepBreakdown>& steps);

}  // namespace shardscope::shell
