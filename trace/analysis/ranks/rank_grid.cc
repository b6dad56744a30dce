#include "trace/analysis/ranks/rank_grid.h"

#include <algorithm>
#include <span>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/row_index.h"

namespace shardscope::analysis {
namespace {

// Rows of a step come from several threads: of a run that goes on the newest steps may still grow.
constexpr size_t kUnsettledSteps = 8;

// Index in ascending `numbers`; nullopt: not one of them.
std::optional<size_t> IndexOf(const std::vector<int32_t>& numbers, int32_t number) {
  const auto found = std::lower_bound(numbers.begin(), numbers.end(), number);
  if (found == numbers.end() || *found != number) return std::nullopt;
  return static_cast<size_t>(found - numbers.begin());
}

class GridMaker {
 public:
  GridMaker(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps)
      : snapshot_(snapshot) {
    for (const query::RankRows& rows : snapshot.ranks) grid_.ranks.push_back(rows.rank);
    for (const StepBreakdown& row : steps) grid_.steps.push_back(row.step);
    std::sort(grid_.steps.begin(), grid_.steps.end());
    grid_.steps.erase(std::unique(grid_.steps.begin(), grid_.steps.end()), grid_.steps.end());
    grid_.cells.resize(grid_.ranks.size() * grid_.steps.size());
    for (const StepBreakdown& row : steps) {
      RankCell* cell = Find(row.rank, row.step);
      if (cell == nullptr) continue;
      cell->is_finished = true;
      cell->step_ns = row.step_ns;
      cell->exposed_ns = row.time.exposed_ns;
    }
  }

  // The lateness of all steps before the one that is returned.
  int32_t TakeSettled(const RankGrid& before) {
    if (before.ranks != grid_.ranks || before.steps.empty()) return INT32_MIN;
    size_t settled = before.steps.size() - std::min(before.steps.size(), kUnsettledSteps);
    for (size_t step = 0; step < settled; ++step) {
      if (!TakeStep(before, step)) settled = step;
    }
    return before.steps[settled];
  }

  void AddLateness(int32_t first_step) {
    if (grid_.steps.empty()) return;
    const int32_t first = std::max(first_step, grid_.steps.front());
    for (const auto& [from, to] : StepRanges(snapshot_, first, grid_.steps.back())) {
      ForEachCollective(snapshot_, from, to, [this](std::span<const CollectiveMember> members) {
        AddCollective(members);
      });
    }
  }

  void AddMemory() {
    for (const query::RankRows& rows : snapshot_.ranks) {
      const std::vector<int64_t> peaks = PeakBytesOfEachStep(rows);
      for (size_t at = 0; at < peaks.size(); ++at) {
        if (RankCell* cell = Find(rows.rank, rows.steps[at].step)) cell->peak_bytes = peaks[at];
      }
    }
  }

  RankGrid Take() { return std::move(grid_); }

 private:
  RankCell* Find(int32_t rank, int32_t step) {
    const std::optional<size_t> row = IndexOf(grid_.ranks, rank);
    const std::optional<size_t> column = IndexOf(grid_.steps, step);
    return row && column ? &grid_.cells[*row * grid_.steps.size() + *column] : nullptr;
  }

  // false: some rank had not finished it.
  bool TakeStep(const RankGrid& before, size_t step) {
    for (size_t rank = 0; rank < before.ranks.size(); ++rank) {
      if (!before.At(rank, step).is_finished) return false;
    }
    for (size_t rank = 0; rank < before.ranks.size(); ++rank) {
      RankCell* cell = Find(before.ranks[rank], before.steps[step]);
      if (cell == nullptr) return false;
      const RankCell& old = before.At(rank, step);
      cell->num_collectives = old.num_collectives;
      cell->num_last = old.num_last;
      cell->late_ns = old.late_ns;
      cell->last_late_ns = old.last_late_ns;
    }
    return true;
  }

  // Members are in order of their arrival.
  void AddCollective(std::span<const CollectiveMember> members) {
    const query::Collective& row = *members.front().row;
    if (row.kind == query::OpClass::kSendReceive || members.size() < 2 || !IsComplete(members)) {
      return;
    }
    const CollectiveMember* last = &LastOf(members);
    const size_t middle = (members.size() - 1) / 2;  // of all but one
    for (size_t at = 0; at < members.size(); ++at) {
      const CollectiveMember& member = members[at];
      RankCell* cell = Find(member.row->rank, member.row->step);
      if (cell == nullptr || !cell->is_finished) continue;
      const int64_t usual_ns = members[middle < at ? middle : middle + 1].run->started_ns;
      const int64_t late_ns = std::max<int64_t>(0, member.run->started_ns - usual_ns);
      ++cell->num_collectives;
      AddCapped(late_ns, &cell->late_ns);
      if (&member != last) continue;
      ++cell->num_last;
      AddCapped(late_ns, &cell->last_late_ns);
    }
  }

  const query::Snapshot& snapshot_;
  RankGrid grid_;
};

}  // namespace

std::optional<double> ValueOf(const RankCell& cell, RankFigure figure) {
  if (!cell.is_finished) return std::nullopt;
  switch (figure) {
    case RankFigure::kExposedShare:
      if (cell.step_ns <= 0) return std::nullopt;
      return static_cast<double>(cell.exposed_ns) / static_cast<double>(cell.step_ns);
    case RankFigure::kLateness:
      if (cell.num_collectives == 0) return std::nullopt;
      return static_cast<double>(cell.late_ns) / cell.num_collectives;
    case RankFigure::kStepTime:
      return static_cast<double>(cell.step_ns);
    case RankFigure::kMemory:
      return static_cast<double>(cell.peak_bytes);
  }
  return std::nullopt;
}

RankGrid MakeRankGrid(const query::Snapshot& snapshot, const std::vector<StepBreakdown>& steps,
                      const RankGrid* before) {
  GridMaker maker(snapshot, steps);
  maker.AddLateness(before == nullptr ? INT32_MIN : maker.TakeSettled(*before));
  maker.AddMemory();
  return maker.Take();
}

}  // namespace shardscope::analysis
