#include "trace/analysis/collectives.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "trace/analysis/row_index.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

// The last rank's arrival at one collective.
struct Arrival {
  int64_t time_ns = 0;
  int32_t rank = -1;
  int32_t members = 0;
};
using CollectiveKey = std::pair<int32_t, int64_t>;  // communicator, sequence

void AppendRank(const query::Snapshot& snapshot, const query::RankRows& rows, int first_step,
                int last_step, std::vector<CollectiveRun>* runs, std::vector<int32_t>* sizes) {
  std::unordered_map<query::OpRunId, const query::Collective*> by_op_run;
  rows.collectives.ForEachOfSteps(first_step, last_step, [&](const query::Collective& row, size_t) {
    by_op_run[row.op_run] = &row;
  });
  rows.op_runs.ForEachOfSteps(first_step, last_step, [&](const query::OpRun& op_run, size_t) {
    const auto found = by_op_run.find(op_run.id);
    if (found == by_op_run.end() || op_run.step != found->second->step) return;
    const query::Collective& row = *found->second;
    const query::PlanOp* op = snapshot.FindPlanOp(op_run.plan_op);
    CollectiveRun run;
    run.op_run = op_run.id;
    run.plan_op = op_run.plan_op;
    run.rank = rows.rank;
    run.step = op_run.step;
    run.name = op == nullptr ? "" : op->name;
    run.communicator = row.communicator;
    run.sequence = row.sequence;
    run.started_ns = op_run.started_ns;
    run.ended_ns = op_run.ended_ns;
    run.payload_bytes = row.payload_bytes;
    run.wire_bytes = row.wire_bytes;
    runs->push_back(std::move(run));
    sizes->push_back(row.group_size);
  });
}

}  // namespace

void SplitAtArrival(CollectiveRun* run) {
  run->wait_ns = run->last_arrival_ns - run->started_ns;
  run->transfer_ns = run->ended_ns - run->last_arrival_ns;
  if (run->transfer_ns <= 0) return;
  run->bus_bandwidth = static_cast<double>(run->wire_bytes) /
                       (static_cast<double>(run->transfer_ns) / double{kNsPerSecond});
}

std::vector<CollectiveRun> Slowest(std::vector<CollectiveRun> runs) {
  const size_t kept = std::min(kSlowest, runs.size());
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

std::vector<CollectiveRun> Collectives(const query::Snapshot& snapshot, int first_step,
                                       int last_step) {
  std::vector<CollectiveRun> runs;
  std::vector<int32_t> group_sizes;  // of runs, at the same index
  for (const query::RankRows& rows : snapshot.ranks) {
    AppendRank(snapshot, rows, first_step, last_step, &runs, &group_sizes);
  }
  std::map<CollectiveKey, Arrival> arrivals;
  for (const CollectiveRun& run : runs) {
    Arrival& arrival = arrivals[{run.communicator, run.sequence}];
    if (arrival.rank < 0 || run.started_ns > arrival.time_ns) {
      arrival.time_ns = run.started_ns;
      arrival.rank = run.rank;
    }
    ++arrival.members;
  }
  for (size_t i = 0; i < runs.size(); ++i) {
    CollectiveRun& run = runs[i];
    const Arrival& arrival = arrivals[{run.communicator, run.sequence}];
    run.complete = arrival.members >= group_sizes[i];
    run.last_rank = arrival.rank;
    // Clocks of several processes agree only up to a residual: wait + transfer stays the duration.
    run.last_arrival_ns =
        std::clamp(arrival.time_ns, run.started_ns, std::max(run.started_ns, run.ended_ns));
    SplitAtArrival(&run);
  }
  std::stable_sort(runs.begin(), runs.end(), [](const CollectiveRun& a, const CollectiveRun& b) {
    return std::pair(a.rank, a.started_ns) < std::pair(b.rank, b.started_ns);
  });
  return runs;
}

}  // namespace shardscope::analysis
