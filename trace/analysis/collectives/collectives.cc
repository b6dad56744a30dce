#include "trace/analysis/collectives/collectives.h"

#include <algorithm>
#include <compare>
#include <cstddef>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "trace/analysis/plan_op_table.h"
#include "trace/analysis/steps/rank_step.h"
#include "trace/base/byte_rate.h"

namespace shardscope::analysis {
namespace {

// Those of one rank, in the order of its op runs.
void AppendRank(const query::RankRows& rows, int first_step, int last_step,
                std::vector<CollectiveMember>* members) {
  using CollectiveRef = query::RowRef<query::Collective>;
  std::vector<CollectiveRef> collectives;
  rows.collectives.ForEachOfSteps(first_step, last_step,
                                  [&](const query::Collective&, size_t index) {
                                    collectives.emplace_back(rows.collectives, index);
                                  });
  const auto before = [](const CollectiveRef& a, const CollectiveRef& b) {
    return a->op_run < b->op_run;
  };
  if (!std::is_sorted(collectives.begin(), collectives.end(), before)) {
    std::stable_sort(collectives.begin(), collectives.end(), before);
  }
  // Op runs have ascending ids but for those of damaged files.
  auto next = collectives.begin();
  rows.op_runs.ForEachOfSteps(first_step, last_step, [&](const query::OpRun& run, size_t index) {
    if (next == collectives.end() || (*next)->op_run != run.id) {
      next = std::partition_point(collectives.begin(), collectives.end(),
                                  [&](const CollectiveRef& row) { return row->op_run < run.id; });
    }
    if (next == collectives.end() || (*next)->op_run != run.id) return;
    if (run.step == (*next)->step) members->push_back({query::RowRef(rows.op_runs, index), *next});
    ++next;
  });
}

// What members are sorted by, beside them: their rows lie all over memory.
struct SortedMember {
  int32_t communicator = 0;
  int64_t sequence = 0;
  int64_t started_ns = 0;
  size_t place = 0;  // among those of all ranks: ranks are ascending

  bool IsOfOneWith(const SortedMember& other) const {
    return communicator == other.communicator && sequence == other.sequence;
  }
  auto operator<=>(const SortedMember&) const = default;
};

// The two smallest ranks.
std::pair<int32_t, int32_t> SmallestRanks(std::span<const CollectiveMember> members) {
  std::pair<int32_t, int32_t> smallest = {INT32_MAX, INT32_MAX};
  for (const CollectiveMember& member : members) {
    const int32_t rank = member.row->rank;
    if (rank < smallest.first) {
      smallest = {rank, smallest.first};
    } else if (rank != smallest.first) {
      smallest.second = std::min(smallest.second, rank);
    }
  }
  return smallest;
}

// `members` of one collective; of one rank that is in it twice, as damaged files have it, both.
// Those of `rank` alone, if it is given.
void AppendRuns(const PlanOpTable& plan_ops, std::span<const CollectiveMember> members,
                std::optional<int32_t> rank, std::vector<CollectiveRun>* runs) {
  const CollectiveMember& last = LastOf(members);
  const auto [first_rank, second_rank] = SmallestRanks(members);
  for (const CollectiveMember& member : members) {
    if (rank && member.row->rank != *rank) continue;
    const query::PlanOp* op = plan_ops.Find(member.run->plan_op);
    CollectiveRun run;
    run.op_run = member.run->id;
    run.plan_op = member.run->plan_op;
    run.rank = member.row->rank;
    run.step = member.run->step;
    run.name = op == nullptr ? "" : op->name;
    run.communicator = member.row->communicator;
    run.sequence = member.row->sequence;
    run.started_ns = member.run->started_ns;
    run.ended_ns = member.run->ended_ns;
    run.payload_bytes = member.row->payload_bytes;
    run.wire_bytes = member.row->wire_bytes;
    run.complete = IsComplete(members);
    run.last_rank = last.row->rank;
    run.last_op_run = last.run->id;
    const int32_t other = run.rank == first_rank ? second_rank : first_rank;
    if (other != INT32_MAX) run.other_rank = other;
    // Clocks of several processes agree only up to a residual: wait + transfer stays the duration.
    run.last_arrival_ns =
        std::clamp(last.run->started_ns, run.started_ns, std::max(run.started_ns, run.ended_ns));
    SplitAtArrival(&run);
    runs->push_back(std::move(run));
  }
}

}  // namespace

void SplitAtArrival(CollectiveRun* run) {
  run->wait_ns = run->last_arrival_ns - run->started_ns;
  run->transfer_ns = run->ended_ns - run->last_arrival_ns;
  if (run->transfer_ns <= 0) return;
  run->bus_bandwidth = BytesPerSecond(run->wire_bytes, static_cast<double>(run->transfer_ns));
}

std::vector<CollectiveRun> Slowest(std::vector<CollectiveRun> runs) {
  const size_t kept = std::min(kSlowest, runs.size());
  std::partial_sort(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(kept), runs.end(),
                    [](const CollectiveRun& a, const CollectiveRun& b) {
                      const int64_t a_ns = a.ended_ns - a.started_ns;
                      const int64_t b_ns = b.ended_ns - b.started_ns;
                      if (a_ns != b_ns) return a_ns > b_ns;
                      return std::tuple(a.started_ns, a.rank, a.op_run) <
                             std::tuple(b.started_ns, b.rank, b.op_run);
                    });
  runs.resize(kept);
  return runs;
}

void ForEachCollective(
    const query::Snapshot& snapshot, int first_step, int last_step,
    const std::function<void(std::span<const CollectiveMember> members)>& visit) {
  std::vector<CollectiveMember> members;
  for (const query::RankRows& rows : snapshot.ranks) {
    AppendRank(rows, first_step, last_step, &members);
  }
  std::vector<SortedMember> sorted;
  sorted.reserve(members.size());
  for (const CollectiveMember& member : members) {
    sorted.push_back(
        {member.row->communicator, member.row->sequence, member.run->started_ns, sorted.size()});
  }
  std::sort(sorted.begin(), sorted.end());
  std::vector<CollectiveMember> of_one;
  for (size_t first = 0; first < sorted.size();) {
    of_one.clear();
    size_t end = first;
    for (; end < sorted.size() && sorted[end].IsOfOneWith(sorted[first]); ++end) {
      of_one.push_back(members[sorted[end].place]);
    }
    visit(of_one);
    first = end;
  }
}

const CollectiveMember& LastOf(std::span<const CollectiveMember> members) {
  size_t last = members.size() - 1;
  while (last > 0 && members[last - 1].run->started_ns == members[last].run->started_ns) --last;
  return members[last];
}

namespace {

std::vector<CollectiveRun> CollectivesOf(const query::Snapshot& snapshot, int first_step,
                                         int last_step, std::optional<int32_t> rank) {
  const PlanOpTable plan_ops(snapshot);
  std::vector<CollectiveRun> runs;
  ForEachCollective(snapshot, first_step, last_step,
                    [&](std::span<const CollectiveMember> members) {
                      AppendRuns(plan_ops, members, rank, &runs);
                    });
  // Runs are large: their order is found first.
  std::vector<std::tuple<int32_t, int64_t, query::OpRunId, size_t>> order;
  order.reserve(runs.size());
  for (const CollectiveRun& run : runs) {
    order.emplace_back(run.rank, run.started_ns, run.op_run, order.size());
  }
  std::sort(order.begin(), order.end());
  std::vector<CollectiveRun> sorted;
  sorted.reserve(runs.size());
  for (const auto& key : order) sorted.push_back(std::move(runs[std::get<3>(key)]));
  return sorted;
}

}  // namespace

std::vector<CollectiveRun> Collectives(const query::Snapshot& snapshot, int first_step,
                                       int last_step) {
  return CollectivesOf(snapshot, first_step, last_step, std::nullopt);
}

std::vector<CollectiveRun> CollectivesOfRank(const query::Snapshot& snapshot, int32_t rank,
                                             int32_t step) {
  return CollectivesOf(snapshot, step, step, rank);
}

}  // namespace shardscope::analysis
