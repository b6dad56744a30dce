// Breakdown: where the time of each rank and step went, by interval unions. Pure functions over a
// Snapshot.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "trace/analysis/steps/time_split.h"
#include "trace/base/interval.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// The first steps that our own runs do are slower than the rest: caches and pools are empty. Traces
// of other programs mostly begin later than their runs.
inline constexpr int kWarmUpSteps = 2;

// One rank and step. compute + exposed + exposed_copy + idle == step, always.
struct StepBreakdown {
  int32_t rank = 0;
  int32_t step = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t step_ns = 0;
  int64_t compute_ns = 0;        // |C|, optimizer included
  int64_t communication_ns = 0;  // |M|
  int64_t copy_ns = 0;           // |K|
  int64_t overlap_ns = 0;        // |C and M|
  int64_t exposed_ns = 0;        // |M| - overlap
  int64_t exposed_copy_ns = 0;   // |K outside C and M|
  int64_t idle_ns = 0;           // the rest; waiting for a compute slot is part of it
  int64_t slot_wait_ns = 0;      // |waiting for a slot and idle|
  int64_t tokens = 0;
  double loss = 0;
  double grad_norm = 0;
  int32_t timed_from = kWarmUpSteps;  // as TimedFrom() has it of its run
};

inline bool IsWarmUp(const StepBreakdown& row) { return row.step < row.timed_from; }

// The first step of the run that is no warm-up. A run that goes on from a checkpoint warms up
// again, whatever steps of it are here: recording may have dropped its first ones, or others were
// loaded.
int32_t TimedFrom(const query::Snapshot& snapshot);

// 0 for an empty step.
double TokensPerSecond(double tokens, double step_ns);
// Of this rank alone.
double TokensPerSecond(const StepBreakdown& row);

// Every finished step of every rank, ordered by step, then rank.
std::vector<StepBreakdown> Breakdowns(const query::Snapshot& snapshot);

// The same, kept up to date while a run goes on: an update costs what came since the last one.
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

// Linear between the two nearest of the sorted values (as numpy.percentile), 0 for none.
double Percentile(std::vector<double> values, double share);

struct Percentiles {
  double p50 = 0;
  double p95 = 0;
};
Percentiles PercentilesOf(std::vector<double> values);

// Over ranks and steps. Shares are those of the medians beside them, so that what is shown together
// agrees; where a step is far from the others, sums would differ.
struct Summary {
  int num_ranks = 0;
  int num_steps = 0;  // steps that every rank finished
  Percentiles step_ns;
  Percentiles exposed_ns;
  Percentiles idle_ns;
  Percentiles compute_ns;
  Percentiles communication_ns;
  double exposed_share = 0;      // p50 of exposed / p50 of step
  double overlap_ratio = 0;      // sum of overlap / sum of communication; 0 without any
  bool communicates = false;     // whether there is any
  double tokens_per_second = 0;  // of all ranks, over the p50 step
  // Mean over ranks, of the newest and the first of these steps in which a token counts; 0: none.
  double last_loss = 0;
  double first_loss = 0;
};
// Of the steps in [first_step, last_step]; warm-up is left out if there are more.
Summary SummarizeRange(const std::vector<StepBreakdown>& steps, int first_step, int last_step);

}  // namespace shardscope::analysis
