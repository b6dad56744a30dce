// StepTable: one row a step over all ranks: what it took, what it trained, and what was changed
// or happened at it. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "trace/analysis/scope.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// The ranks that finished this step.
struct StepRow {
  int32_t step = 0;
  int32_t num_ranks = 0;
  int64_t start_ns = 0;            // of the first rank
  int64_t step_ns = 0;             // of the slowest rank, which
  int32_t slowest_rank = 0;        // this is
  int64_t slowest_exposed_ns = 0;  // of that rank
  // Means over the ranks; compute + exposed + exposed copy + idle == mean_step_ns.
  double mean_step_ns = 0;
  double compute_ns = 0;
  double communication_ns = 0;
  double exposed_ns = 0;
  double exposed_copy_ns = 0;
  double idle_ns = 0;
  int64_t tokens = 0;  // of all ranks
  double loss = 0;     // mean over these tokens; NaN: nothing was trained on
  double grad_norm = std::numeric_limits<double>::quiet_NaN();
  bool is_warm_up = false;
  // Knobs turned, pauses, checkpoints, skipped updates, errors at this step, each once, oldest
  // first.
  std::vector<query::Marker> events;

  double tokens_per_second() const {  // over the slowest rank's step
    return TokensPerSecond(static_cast<double>(tokens), static_cast<double>(step_ns));
  }
};

// By step. `steps`: as Breakdowns() gives them. Markers of steps that no rank finished have no row.
std::vector<StepRow> MakeStepTable(const std::vector<StepBreakdown>& steps,
                                   const std::vector<query::Marker>& markers);

// "prefetch.forward 1 -> 2", "pause", "checkpoint step-20": as the report writes it.
std::string EventText(const query::Marker& event);

// The rows as a table of a terminal; nothing of no row.
std::string PrintStepTable(const std::vector<StepRow>& rows);

}  // namespace shardscope::analysis
