#include "trace/analysis/collectives/collective_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <span>
#include <unordered_map>
#include <utility>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/op_share.h"
#include "trace/analysis/report/text_table.h"
#include "trace/analysis/row_index.h"
#include "trace/base/byte_rate.h"
#include "trace/base/interval.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

// When a rank computed.
class ComputedTime {
 public:
  ComputedTime() = default;
  explicit ComputedTime(std::vector<Interval> computed) : computed_(Union(std::move(computed))) {
    before_.reserve(computed_.size());
    int64_t total_ns = 0;
    for (const Interval& interval : computed_) {
      before_.push_back(total_ns);
      total_ns += interval.end_ns - interval.start_ns;
    }
  }

  // Of [start_ns, end_ns) what is not computed.
  int64_t NotIn(int64_t start_ns, int64_t end_ns) const {
    return end_ns <= start_ns ? 0 : end_ns - start_ns - (Until(end_ns) - Until(start_ns));
  }

 private:
  int64_t Until(int64_t time_ns) const {
    const auto after = std::partition_point(
        computed_.begin(), computed_.end(),
        [time_ns](const Interval& interval) { return interval.start_ns < time_ns; });
    if (after == computed_.begin()) return 0;
    const auto at = static_cast<size_t>(after - computed_.begin()) - 1;
    return before_[at] + std::min(time_ns, computed_[at].end_ns) - computed_[at].start_ns;
  }

  std::vector<Interval> computed_;  // apart, ascending
  std::vector<int64_t> before_;     // computed before each
};

class TableMaker {
 public:
  explicit TableMaker(const query::Snapshot& snapshot) : snapshot_(snapshot), matrix_(snapshot) {
    for (const auto& [id, op] : snapshot.plan_ops) shares_[id] = ShareOf(op);
  }

  void AddSteps(int first, int last) {
    computed_.clear();
    for (const query::RankRows& rows : snapshot_.ranks) {
      std::vector<Interval> computed;
      rows.op_runs.ForEachOfSteps(first, last, [&](const query::OpRun& run, size_t) {
        const auto share = shares_.find(run.plan_op);
        if (share != shares_.end() && share->second == OpShare::kCompute) {
          computed.push_back({run.started_ns, run.ended_ns});
        }
      });
      computed_.try_emplace(rows.rank, std::move(computed));
    }
    ForEachCollective(snapshot_, first, last, [this](std::span<const CollectiveMember> members) {
      AddCollective(members);
      matrix_.Add(members);
    });
  }

  CollectiveTable Take() {
    CollectiveTable table;
    std::vector<size_t> place_of(groups_.size());  // of a group, in the order of keys
    for (const auto& [key, at] : places_) {
      place_of[at] = table.groups.size();
      table.groups.push_back(std::move(groups_[at]));
    }
    for (const auto& [step, sums] : steps_) table.steps.push_back({step, sums});
    std::stable_sort(
        points_.begin(), points_.end(),
        [](const CollectivePoint& a, const CollectivePoint& b) { return a.step < b.step; });
    const size_t every = points_.size() / kMostCollectivePoints + 1;
    for (size_t at = 0; at < points_.size(); at += every) {
      table.points.push_back(points_[at]);
      table.points.back().group = place_of[points_[at].group];
    }
    table.matrix = matrix_.Take();
    return table;
  }

 private:
  // Ops of the Schedule have kinds and units, their many runs have not.
  size_t GroupOf(const CollectiveMember& member) {
    const auto [known, is_new] =
        group_of_.try_emplace({member.run->plan_op, member.row->communicator}, 0);
    if (!is_new) return known->second;
    const query::PlanOp* op = snapshot_.FindPlanOp(member.run->plan_op);
    const auto communicator = static_cast<size_t>(member.row->communicator);
    CollectiveGroupKey key;
    key.kind = op == nullptr ? std::string(Name(member.row->kind)) : op->kind;
    if (op != nullptr) key.unit = op->unit;
    if (communicator < snapshot_.communicators.size()) {
      key.communicator = snapshot_.communicators[communicator];
    }
    const auto [place, is_first] = places_.try_emplace(key, groups_.size());
    if (is_first) groups_.push_back({.key = std::move(key)});
    return known->second = place->second;
  }

  void AddCollective(std::span<const CollectiveMember> members) {
    const CollectiveMember& last = LastOf(members);
    CollectiveSums all;
    for (const CollectiveMember& member : members) {
      const query::OpRun& run = *member.run;
      const int64_t end_ns = std::max(run.started_ns, run.ended_ns);
      const int64_t arrival_ns = std::clamp(last.run->started_ns, run.started_ns, end_ns);
      CollectiveSums sums;
      sums.calls = 1;
      sums.payload_bytes = std::max<int64_t>(member.row->payload_bytes, 0);
      sums.wire_bytes = std::max<int64_t>(member.row->wire_bytes, 0);
      sums.wait_ns = arrival_ns - run.started_ns;
      sums.transfer_ns = end_ns - arrival_ns;
      sums.exposed_ns = computed_[member.row->rank].NotIn(run.started_ns, end_ns);
      sums.is_emulated = member.row->truth != query::Truth::kMeasured;
      CollectiveGroup& group = groups_[GroupOf(member)];
      group.sums.Add(sums);
      steps_[run.step].Add(sums);
      all.Add(sums);
      if (end_ns - run.started_ns <= group.longest_ns) continue;
      group.longest = run.id;
      group.longest_ns = end_ns - run.started_ns;
      group.longest_rank = member.row->rank;
      group.longest_step = run.step;
    }
    if (all.bus_bandwidth() <= 0) return;
    points_.push_back({.group = GroupOf(last),
                       .payload_bytes = last.row->payload_bytes,
                       .bus_bandwidth = all.bus_bandwidth(),
                       .op_run = last.run->id,
                       .rank = last.row->rank,
                       .step = last.run->step});
  }

  struct HashOfRun {
    size_t operator()(const std::pair<query::PlanOpId, int32_t>& key) const {
      return std::hash<query::PlanOpId>()(key.first) * 31 + static_cast<size_t>(key.second);
    }
  };

  const query::Snapshot& snapshot_;
  CommunicationMatrixMaker matrix_;
  std::unordered_map<query::PlanOpId, OpShare> shares_;
  std::unordered_map<int32_t, ComputedTime> computed_;  // by rank, of the steps in the making
  std::unordered_map<std::pair<query::PlanOpId, int32_t>, size_t, HashOfRun> group_of_;
  std::map<CollectiveGroupKey, size_t> places_;  // of a key, in groups_
  std::vector<CollectiveGroup> groups_;
  std::map<int32_t, CollectiveSums> steps_;
  std::vector<CollectivePoint> points_;
};

}  // namespace

void CollectiveSums::Add(const CollectiveSums& other) {
  calls += other.calls;
  AddCapped(other.payload_bytes, &payload_bytes);
  AddCapped(other.wire_bytes, &wire_bytes);
  AddCapped(other.wait_ns, &wait_ns);
  AddCapped(other.transfer_ns, &transfer_ns);
  AddCapped(other.exposed_ns, &exposed_ns);
  is_emulated = is_emulated || other.is_emulated;
}

double CollectiveSums::bus_bandwidth() const {
  return BytesPerSecond(wire_bytes, static_cast<double>(transfer_ns));
}

std::string PrintCollectives(const CollectiveTable& table) {
  if (table.groups.empty()) return "";
  TextTable text({"collective", "unit", "ranks", "calls", "size", "sent a step", "wait", "transfer",
                  "bandwidth", "exposed a step"},
                 3);
  const auto mean = [](int64_t sum, int64_t count) {
    return count == 0 ? 0 : std::llround(static_cast<double>(sum) / static_cast<double>(count));
  };
  // Some traces do not tell how much (Gloo's collectives in a torch.profiler's).
  const auto size = [&mean](int64_t bytes, int64_t count) {
    return bytes > 0 ? FormatBytes(mean(bytes, count)) : std::string("\u2013");
  };
  bool is_emulated = false;
  for (const CollectiveGroup& group : table.groups) {
    const CollectiveSums& sums = group.sums;
    is_emulated = is_emulated || sums.is_emulated;
    text.Add({group.key.kind, group.key.unit, group.key.communicator, std::to_string(sums.calls),
              size(sums.payload_bytes, sums.calls), size(sums.wire_bytes, table.num_rank_steps),
              FormatDuration(mean(sums.wait_ns, sums.calls)),
              FormatDuration(mean(sums.transfer_ns, sums.calls)),
              FormatBandwidth(sums.bus_bandwidth()) + (sums.is_emulated ? " *" : ""),
              FormatDuration(mean(sums.exposed_ns, table.num_rank_steps))});
  }
  return "\nCollectives: a call is a rank's part of one; size, wait and transfer are means of "
         "calls, "
         "sent and exposed of all ranks\n" +
         text.Print() + (is_emulated ? "  * on an emulated link\n" : "") +
         PrintMatrix(table.matrix, std::ssize(table.steps));
}

CollectiveTable MakeCollectiveTable(const query::Snapshot& snapshot, const ScopedSteps& scope) {
  TableMaker maker(snapshot);
  for (const auto& [first, last] : StepRanges(snapshot, scope.first_timed, scope.last)) {
    maker.AddSteps(first, last);
  }
  CollectiveTable table = maker.Take();
  table.scope = scope;
  for (const query::RankRows& rows : snapshot.ranks) {
    rows.steps.ForEachOfSteps(scope.first_timed, scope.last,
                              [&](const query::Step&, size_t) { ++table.num_rank_steps; });
  }
  return table;
}

std::vector<CollectiveGroup> Merged(const std::vector<CollectiveGroup>& groups,
                                    CollectiveMerge merge) {
  if (merge == CollectiveMerge::kNothing) return groups;
  std::map<CollectiveGroupKey, CollectiveGroup> merged;
  for (const CollectiveGroup& group : groups) {
    CollectiveGroupKey key;
    if (merge == CollectiveMerge::kKind) key.kind = group.key.kind;
    if (merge == CollectiveMerge::kUnit) key.unit = group.key.unit;
    if (merge == CollectiveMerge::kDimension) {
      key.communicator = group.key.communicator.substr(0, group.key.communicator.find('/'));
    }
    CollectiveGroup& row = merged[key];
    row.key = key;
    row.sums.Add(group.sums);
    if (group.longest_ns <= row.longest_ns) continue;
    row.longest = group.longest;
    row.longest_ns = group.longest_ns;
    row.longest_rank = group.longest_rank;
    row.longest_step = group.longest_step;
  }
  std::vector<CollectiveGroup> rows;
  for (auto& [key, row] : merged) rows.push_back(std::move(row));
  return rows;
}

}  // namespace shardscope::analysis
