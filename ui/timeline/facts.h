// What is known about one op run, for details, tooltips and the arrow. No ImGui.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/collectives/arrivals.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/query/snapshot.h"
#include "ui/timeline/axis.h"

namespace shardscope::timeline {

struct OpFacts {
  bool found = false;
  query::OpRun run;
  query::PlanOp op;
  std::string name;        // "B block1", "AG block1"
  std::string waited_for;  // the dependency that was done last; empty: ready when issued
  query::Truth truth = query::Truth::kMeasured;
  int64_t step_start_ns = 0;  // of its rank; the run's start while the step goes on

  std::optional<analysis::CollectiveRun> collective;
  std::vector<analysis::Arrival> arrivals;  // of its ranks
  std::string communicator;                 // of the collective
  std::vector<std::string> parameters;      // of its unit: what a bucket holds
  analysis::PrefetchSlack slack;            // all-gathers only
  std::string first_use;                    // short name of the op that uses it first
  int64_t hidden_ns = 0;                    // of a collective: how long compute ran beside it
  std::string hidden_under;                 // the compute op that ran beside it longest
  bool has_half_parameters = false;         // they are gathered in bf16 or fp16

  // Compute: the stall in front of it. Collective: the stall that it caused.
  std::optional<analysis::Stall> stall;

  bool is_collective() const { return collective.has_value(); }
};
OpFacts FactsOf(const query::Snapshot& snapshot, int32_t rank, query::OpRunId op_run);

// Whether they were found, of this op run.
bool AreFactsOf(const OpFacts& facts, int32_t rank, query::OpRunId op_run);

// Whether no later row can change them. Until a later step of their rank is over, the first use and
// the other ranks' arrivals may still come.
bool AreSettled(const OpFacts& facts, const query::Snapshot& snapshot);

// How many times slower the link could be before this hidden all-gather would be exposed; 0 if it
// is exposed already or took no time.
double LinkHeadroom(const OpFacts& facts);

// The all-gather of the first rank that teaches most in `range`: one that is hidden right after a
// change, else the one behind the dearest stall, else the longest hidden one. nullopt without
// either.
std::optional<query::OpRunId> MostInstructiveOp(const query::Snapshot& snapshot, Range range);

}  // namespace shardscope::timeline
