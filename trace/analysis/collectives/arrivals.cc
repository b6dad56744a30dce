#include "trace/analysis/collectives/arrivals.h"

#include <algorithm>

namespace shardscope::analysis {

std::vector<Arrival> ArrivalsOf(const query::Snapshot& snapshot, const CollectiveRun& run) {
  std::vector<Arrival> arrivals;
  for (const query::RankRows& rows : snapshot.ranks) {
    query::OpRunId part = query::OpRunId::None();
    rows.collectives.ForEachOfSteps(run.step, run.step, [&](const query::Collective& row, size_t) {
      if (row.communicator == run.communicator && row.sequence == run.sequence) part = row.op_run;
    });
    if (part.is_none()) continue;
    // Op runs have ascending ids but for those of damaged files.
    const auto found =
        std::partition_point(rows.op_runs.begin(), rows.op_runs.end(),
                             [part](const query::OpRun& op_run) { return op_run.id < part; });
    if (found == rows.op_runs.end() || found->id != part) continue;
    arrivals.push_back({rows.rank, part, found->started_ns});
  }
  std::ranges::stable_sort(arrivals, {}, &Arrival::after_first_ns);
  if (arrivals.empty()) return arrivals;
  const int64_t first_ns = arrivals.front().after_first_ns;
  for (Arrival& arrival : arrivals) arrival.after_first_ns -= first_ns;
  return arrivals;
}

}  // namespace shardscope::analysis
