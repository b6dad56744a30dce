// StepIndex, StepRows: the op runs of a range of steps, found by rank and step, plan op or id, and
// their collectives. Internal to analysis. Borrows the Snapshot, which must outlive it.
#pragma once

#include <cstdint>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/analysis/collectives/collectives.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// An op run with what it ran; `op` is never null.
struct IndexedRun {
  query::OpRun run;
  const query::PlanOp* op = nullptr;
  const CollectiveRun* collective = nullptr;  // in StepRows only; null: it is none, or was lost
};

// One step of one rank.
struct StepIndex {
  int32_t rank = 0;
  int32_t step = 0;
  bool finished = false;         // there is a step row
  int64_t start_ns = 0;          // of the step row; without one, issue of the first op
  int64_t end_ns = 0;            // of the step row; not before its start
  std::vector<IndexedRun> runs;  // by start
  std::unordered_map<query::PlanOpId, const IndexedRun*> by_plan;
  std::vector<const IndexedRun*> host_waits;  // runs that carry one, as the host issued them

  const IndexedRun* Find(query::PlanOpId plan_op) const {
    const auto found = by_plan.find(plan_op);
    return found == by_plan.end() ? nullptr : found->second;
  }
};

// by_plan and host_waits point into runs: a StepIndex may be moved, never copied.
static_assert(std::is_nothrow_move_constructible_v<StepIndex>);

// Steps of [first_step, last_step], in order of rank, then step. Op runs without a plan op are left
// out.
std::vector<StepIndex> IndexSteps(const query::Snapshot& snapshot, int first_step, int last_step);
StepIndex IndexStep(const query::Snapshot& snapshot, int32_t rank, int32_t step);

// What IndexSteps() and Collectives() give, put together: made once for all that look at these
// steps.
struct StepRows {
  StepRows(const query::Snapshot& of, int first_step, int last_step);
  // Of some steps alone, with the collectives of their ranks in the order of Collectives().
  StepRows(const query::Snapshot& of, std::vector<CollectiveRun> runs,
           std::vector<StepIndex> indexed);
  StepRows(const StepRows&) = delete;
  StepRows& operator=(const StepRows&) = delete;

  const query::Snapshot& snapshot;
  std::vector<CollectiveRun> collectives;
  std::vector<StepIndex> steps;  // point into the collectives
};

// From the first to the last step of [first_step, last_step] that any rank has finished, in ranges
// without gaps of at most kStepsOfARange finished ones: what IndexSteps() gives of more at once
// would be hundreds of megabytes. A collective whose ranks number its step apart is one only where
// no range ends between them.
inline constexpr int kStepsOfARange = 64;
// How many steps are looked at at once: `most` of up to 16 ranks, fewer of more, at least 8.
int StepsAtATime(const query::Snapshot& snapshot, int most);
std::vector<std::pair<int, int>> StepRanges(const query::Snapshot& snapshot, int first_step,
                                            int last_step);

// What `run` waited for last; nullptr: nothing that is known. A wait for a compute slot hides it,
// so there the plan answers.
const IndexedRun* BlockerOf(const StepIndex& step, const IndexedRun& run);

// What the host waited for last before it issued `run`; nullptr: for nothing that is known. Not
// each op behind a host wait carries it.
const IndexedRun* LastHostWait(const StepIndex& step, const IndexedRun& run);

}  // namespace shardscope::analysis
