#include "trace/analysis/row_index.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "trace/analysis/plan_op_table.h"

namespace shardscope::analysis {
namespace {

void Complete(StepIndex* index) {
  std::stable_sort(
      index->runs.begin(), index->runs.end(), [](const IndexedRun& a, const IndexedRun& b) {
        // Equal starts: in host order, so that a wait stands before the op behind it.
        return std::pair(a.run.started_ns, a.op->op) < std::pair(b.run.started_ns, b.op->op);
      });
  for (const IndexedRun& run : index->runs) {
    index->by_plan[run.op->id] = &run;
    if (run.run.blocking_kind == query::BlockingKind::kHost) index->host_waits.push_back(&run);
  }
  std::ranges::stable_sort(index->host_waits, {},
                           [](const IndexedRun* run) { return run->op->op; });
  if (index->finished || index->runs.empty()) return;
  index->start_ns = index->runs.front().run.issued_ns;
}

void AddRank(const PlanOpTable& plan_ops, const query::RankRows& rows, int first_step,
             int last_step, std::vector<StepIndex>* result) {
  std::map<int32_t, StepIndex> steps;
  StepIndex* current = nullptr;  // op runs of a step come together
  rows.op_runs.ForEachOfSteps(first_step, last_step, [&](const query::OpRun& run, size_t) {
    const query::PlanOp* op = plan_ops.Find(run.plan_op);
    if (op == nullptr) return;
    if (current == nullptr || current->step != run.step) {
      current = &steps[run.step];
      current->rank = rows.rank;
      current->step = run.step;
    }
    current->runs.push_back({run, op, nullptr});
  });
  for (const query::Step& step : rows.steps) {
    const auto found = steps.find(step.step);
    if (found == steps.end()) continue;
    found->second.finished = true;
    found->second.start_ns = step.start_ns;
    found->second.end_ns = std::max(step.start_ns, step.end_ns);
  }
  for (auto& [step, index] : steps) {
    result->push_back(std::move(index));
    Complete(&result->back());
  }
}

}  // namespace

std::vector<StepIndex> IndexSteps(const query::Snapshot& snapshot, int first_step, int last_step) {
  const PlanOpTable plan_ops(snapshot);
  std::vector<StepIndex> result;
  for (const query::RankRows& rows : snapshot.ranks) {
    AddRank(plan_ops, rows, first_step, last_step, &result);
  }
  return result;
}

StepRows::StepRows(const query::Snapshot& of, int first_step, int last_step)
    : StepRows(of, Collectives(of, first_step, last_step), IndexSteps(of, first_step, last_step)) {}

StepRows::StepRows(const query::Snapshot& of, std::vector<CollectiveRun> runs,
                   std::vector<StepIndex> indexed)
    : snapshot(of), collectives(std::move(runs)), steps(std::move(indexed)) {
  // Both are by rank; those of a rank are found by their op runs.
  std::vector<const CollectiveRun*> of_rank;
  auto next = collectives.begin();
  for (size_t i = 0; i < steps.size(); ++i) {
    const int32_t rank = steps[i].rank;
    if (i == 0 || rank != steps[i - 1].rank) {
      of_rank.clear();
      while (next != collectives.end() && next->rank < rank) ++next;
      for (; next != collectives.end() && next->rank == rank; ++next) of_rank.push_back(&*next);
      std::stable_sort(
          of_rank.begin(), of_rank.end(),
          [](const CollectiveRun* a, const CollectiveRun* b) { return a->op_run < b->op_run; });
    }
    for (IndexedRun& run : steps[i].runs) {
      const auto after =
          std::partition_point(of_rank.begin(), of_rank.end(),
                               [&](const CollectiveRun* row) { return row->op_run <= run.run.id; });
      if (after == of_rank.begin()) continue;
      const CollectiveRun* const row = *std::prev(after);
      if (row->op_run == run.run.id) run.collective = row;
    }
  }
}

StepIndex IndexStep(const query::Snapshot& snapshot, int32_t rank, int32_t step) {
  std::vector<StepIndex> result;
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows != nullptr) AddRank(PlanOpTable(snapshot), *rows, step, step, &result);
  return result.empty() ? StepIndex{rank, step} : std::move(result.front());
}

int StepsAtATime(const query::Snapshot& snapshot, int most) {
  constexpr int kFewRanks = 16;
  constexpr int kLeastSteps = 8;
  const auto ranks = std::max(static_cast<int>(snapshot.ranks.size()), 1);
  return std::clamp(most * kFewRanks / ranks, std::min(kLeastSteps, most), most);
}

std::vector<std::pair<int, int>> StepRanges(const query::Snapshot& snapshot, int first_step,
                                            int last_step) {
  std::set<int32_t> steps;
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& step : rows.steps) {
      if (step.step >= first_step && step.step <= last_step) steps.insert(step.step);
    }
  }
  std::vector<std::pair<int, int>> ranges;
  const int most = StepsAtATime(snapshot, kStepsOfARange);
  int in_range = most;
  for (const int32_t step : steps) {
    if (in_range == most) {
      if (!ranges.empty()) ranges.back().second = step - 1;
      ranges.emplace_back(step, step);
      in_range = 0;
    }
    ranges.back().second = step;
    ++in_range;
  }
  return ranges;
}

const IndexedRun* BlockerOf(const StepIndex& step, const IndexedRun& run) {
  if (!run.run.blocking_plan_op.is_none()) return step.Find(run.run.blocking_plan_op);
  if (run.run.blocking_kind != query::BlockingKind::kSlot) return nullptr;
  const IndexedRun* latest = nullptr;
  for (const query::PlanOpId predecessor : run.op->predecessors) {
    const IndexedRun* found = step.Find(predecessor);
    if (found == nullptr) continue;
    if (latest == nullptr || found->run.ended_ns > latest->run.ended_ns) latest = found;
  }
  return latest;
}

const IndexedRun* LastHostWait(const StepIndex& step, const IndexedRun& run) {
  const auto behind = std::ranges::upper_bound(step.host_waits, run.op->op, {},
                                               [](const IndexedRun* wait) { return wait->op->op; });
  return behind == step.host_waits.begin() ? nullptr : BlockerOf(step, **std::prev(behind));
}

}  // namespace shardscope::analysis
