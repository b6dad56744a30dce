#include "trace/analysis/figures.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "trace/analysis/derived/derived.h"

namespace shardscope::analysis {
namespace {

constexpr size_t kListedStalls = 20;
// Steps looked at at a time: what is known of each of their ops is in memory meanwhile.
constexpr int64_t kStepsOfAPart = 256;

// Collectives and stalls of the steps whose times count, a few steps at a time.
void AddDetails(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                Figures* figures) {
  const int64_t last = figures->scope.last;
  StallGroups groups;
  int num_rank_steps = 0;
  // Wide, because a damaged file may have steps at the ends of int32.
  int64_t done = int64_t{figures->scope.first_timed} - 1;  // the last step that was looked at
  for (const StepBreakdown& row : steps) {
    if (row.step < figures->scope.first_timed || row.step > last) continue;
    ++num_rank_steps;
    if (row.step <= done) continue;
    done = std::min(row.step + kStepsOfAPart - 1, last);
    const int part_last = static_cast<int>(done);
    std::vector<CollectiveRun> runs = snapshot.derived
                                          ? DerivedCollectives(snapshot, row.step, part_last)
                                          : Collectives(snapshot, row.step, part_last);
    groups.Add(Stalls(snapshot, row.step, part_last));
    runs.insert(runs.end(), figures->slowest_collectives.begin(),
                figures->slowest_collectives.end());
    figures->slowest_collectives = Slowest(std::move(runs));
  }
  figures->stalls = groups.Sorted(num_rank_steps);
  if (figures->stalls.size() > kListedStalls) figures->stalls.resize(kListedStalls);
}

}  // namespace

Figures MakeFigures(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                    const Scope& scope) {
  Figures figures;
  figures.scope = Resolve(scope, steps, snapshot.markers);
  if (figures.scope.whole_run()) {
    figures.memory = MemoryPeaks(snapshot);
  } else if (!figures.scope.empty()) {
    figures.memory = MemoryPeaksOfSteps(snapshot, figures.scope.first, figures.scope.last);
  }
  figures.summary = SummarizeRange(steps, figures.scope.first, figures.scope.last);
  if (!figures.scope.empty()) AddDetails(snapshot, steps, &figures);
  return figures;
}

}  // namespace shardscope::analysis
