// BreakdownCache: Breakdowns() of a run that goes on, kept up to date: an update costs what came
// since the last one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/analysis/steps/breakdown.h"
#include "trace/analysis/steps/time_split.h"
#include "trace/base/interval.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// One cache for one run; not thread-safe.
class BreakdownCache {
 public:
  // Takes the rows that `snapshot` has more than the last one. The result holds until the next
  // call. Rows may come in any order: a late op run corrects the row of its step.
  const std::vector<StepBreakdown>& Update(const query::Snapshot& snapshot);

 private:
  friend std::vector<StepBreakdown> Breakdowns(const query::Snapshot& snapshot);
  // Everything known of one step of one rank.
  struct StepRows {
    bool finished = false;
    bool changed = false;
    query::Step step;
    BusyTimes times;
    std::vector<Interval> slot_wait;
  };
  struct Consumed {
    size_t op_runs = 0;
    size_t steps = 0;
  };
  void TakeOpRuns(const query::Snapshot& snapshot, const query::RankRows& rows);
  void TakeOpRun(const query::Snapshot& snapshot, const query::OpRun& run, const query::PlanOp& op);
  void TakeStep(const query::Step& row);
  void ComputeChanged();
  StepBreakdown Compute(StepRows* rows) const;
  void Put(const StepBreakdown& row);

  int32_t timed_from_ = kWarmUpSteps;
  std::map<int32_t, Consumed> consumed_;                       // by rank
  std::map<std::pair<int32_t, int32_t>, StepRows> step_rows_;  // by step, rank
  std::vector<std::pair<int32_t, int32_t>> changed_;
  std::vector<StepBreakdown> result_;
};

}  // namespace shardscope::analysis
