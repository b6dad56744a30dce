#include "trace/analysis/figures.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace shardscope::analysis {
namespace {

constexpr size_t kListed = 20;  // rows of the two lists
// Steps looked at at a time: what is known of each of their ops is in memory meanwhile.
constexpr int64_t kStepsAtATime = 256;

std::vector<CollectiveRun> Slowest(std::vector<CollectiveRun> runs) {
  const size_t kept = std::min(kListed, runs.size());
  std::partial_sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(kept), runs.end(),
                    [](const CollectiveRun& a, const CollectiveRun& b) {
                      const int64_t a_ns = a.ended_ns - a.started_ns;
                      const int64_t b_ns = b.ended_ns - b.started_ns;
                      if (a_ns != b_ns) return a_ns > b_ns;
                      return std::pair(a.started_ns, a.rank) < std::pair(b.started_ns, b.rank);
                    });
  runs.resize(kept);
  return runs;
}

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
    done = std::min(row.step + kStepsAtATime - 1, last);
    std::vector<CollectiveRun> runs = Collectives(snapshot, row.step, static_cast<int>(done));
    groups.Add(Stalls(snapshot, row.step, static_cast<int>(done)));
    runs.insert(runs.end(), figures->slowest_collectives.begin(),
                figures->slowest_collectives.end());
    figures->slowest_collectives = Slowest(std::move(runs));
  }
  figures->stalls = groups.Sorted(num_rank_steps);
  if (figures->stalls.size() > kListed) figures->stalls.resize(kListed);
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
