// Figures: what is counted, added up or compared over steps; all of one Scope, so that they agree
// with one another.
#pragma once

#include <vector>

#include "trace/analysis/breakdown.h"
#include "trace/analysis/collectives.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/scope.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Figures {
  ScopedSteps scope;
  Summary summary;
  std::vector<MemoryPeak> memory;  // of each rank, warm-up included; empty without a step
  std::vector<CollectiveRun> slowest_collectives;  // by duration, dearest first, at most 20
  std::vector<StallGroup> stalls;                  // dearest first, at most 20
};

// `steps`: all of the snapshot, as Breakdowns() gives them.
Figures MakeFigures(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                    const Scope& scope);

}  // namespace shardscope::analysis
