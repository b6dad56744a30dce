// RankFindings: what many ranks have in common, and which of them the others wait for. Pure
// functions.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/explain/front.h"
#include "trace/analysis/ranks/rank_grid.h"
#include "trace/analysis/scope.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// One rank over the timed steps of a scope that it has finished.
struct RankFigures {
  int32_t rank = 0;
  int32_t num_steps = 0;
  int64_t num_collectives = 0;  // that all ranks of its group came to
  int64_t num_last = 0;         // of these, to which it came last
  double step_ns = 0;           // p50
  double exposed_ns = 0;        // p50
  double exposed_share = 0;     // of these two
  double late_ns = 0;           // mean of a collective
  double last_late_ns = 0;      // mean of those to which it came last
  int64_t peak_bytes = 0;       // of any of these steps
  int32_t group = 0;            // index into RankFindings::groups

  double last_share() const {
    return num_collectives == 0
               ? 0
               : static_cast<double>(num_last) / static_cast<double>(num_collectives);
  }
};

// Ranks that the others wait for in most steps; mostly one.
struct Straggler {
  std::vector<int32_t> ranks;  // ascending
  // To how many they come last: of one rank of its collectives, of several of all.
  double last_share = 0;
  double late_ns = 0;      // mean of these
  int32_t worst_step = 0;  // in which they delayed the others by most
  // What this costs all ranks, along the front of each step; 0: the front does not show it.
  double delay_ns_per_step = 0;
  double delay_share = 0;  // of the steps' time
  std::string stage;       // where most of it; empty: all over the step
  // Named for what the front of the steps shows: others may come last as often.
  bool by_front = false;
};

struct RankFindings {
  std::vector<RankFigures> ranks;  // ascending; those with a step only
  // Ranks whose figures are within noise, largest first; a straggler is in none with others.
  std::vector<std::vector<int32_t>> groups;
  std::optional<Straggler> straggler;
  int64_t num_collectives = 0;  // of all ranks, each once
};

// `front`: of the same steps. `clock_residual_ns`: by how much clocks of ranks may disagree, below
// which no rank is late.
RankFindings FindInRanks(const RankGrid& grid, const ScopedSteps& scope, const Front& front,
                         int64_t clock_residual_ns = 0);

// What the app and the command line show of a run's ranks.
struct RankOverview {
  std::shared_ptr<const RankGrid> grid;  // of the whole run
  ScopedSteps scope;
  RankFindings findings;  // of the scope
};
RankOverview MakeRankOverview(const query::Snapshot& snapshot, std::shared_ptr<const RankGrid> grid,
                              const ScopedSteps& scope, const Front& front);

// The largest p95 residual of the run's clocks; 0: they are one.
int64_t ClockResidualNs(const query::Snapshot& snapshot);

// Two sentences at most: who the others wait for, by how much, and what it costs; or that they wait
// for none (English; the app translates by figures).
std::string RankSentence(const RankFindings& findings);

// Who comes last most often; nullptr: no collective has come.
const RankFigures* MostOftenLast(const RankFindings& findings);

}  // namespace shardscope::analysis
