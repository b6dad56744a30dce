// Breakdown: where the time of each rank and step went, by interval unions. Pure functions over a
// Snapshot.
#pragma once

#include <cstdint>
#include <vector>

#include "trace/analysis/steps/time_split.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// The first steps that our own runs do are slower than the rest: caches and pools are empty. Traces
// of other programs mostly begin later than their runs.
inline constexpr int kWarmUpSteps = 2;

// One rank and step: `time` is how the step divides. The optimizer is part of its compute, waiting
// for a compute slot of its idle time.
struct StepBreakdown {
  int32_t rank = 0;
  int32_t step = 0;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  int64_t step_ns = 0;
  TimeSplit time;
  int64_t slot_wait_ns = 0;  // |waiting for a slot and idle|
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
