// Derived rows of finished traces: how analysis makes them, and its structs from them again.
#pragma once

#include <vector>

#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/explain/critical_path.h"
#include "trace/analysis/explain/front.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/query/summary.h"

namespace shardscope::analysis {

// For query::DeriveWhileFinishing().
query::Deriver MakeDeriver();

// What Breakdowns(), Stalls(), MemoryPeaks(), FrontParts(), PathShares() and the 20 slowest of
// Collectives() give, of a Snapshot that has `derived` rows (trace/query/summary.h). GPUs have
// none.
std::vector<StepBreakdown> DerivedBreakdowns(const query::Snapshot& snapshot);
std::vector<Stall> DerivedStalls(const query::Snapshot& snapshot, int first_step, int last_step);
std::vector<CollectiveRun> DerivedCollectives(const query::Snapshot& snapshot, int first_step,
                                              int last_step);
std::vector<MemoryPeak> DerivedMemoryPeaks(const query::Snapshot& snapshot);
std::vector<FrontPart> DerivedFrontParts(const query::Snapshot& snapshot, int first_step,
                                         int last_step);
std::vector<PathShare> DerivedPathShares(const query::Snapshot& snapshot, int first_step,
                                         int last_step);

}  // namespace shardscope::analysis
