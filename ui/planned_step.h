// PlannedStep: a step as its Schedule plans it, in virtual time, from what the ops of this run
// take: to be drawn beside what was. Pure functions; milliseconds of work: not in a frame.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "trace/query/snapshot.h"
#include "ui/context.h"

namespace shardscope::ui {

struct PlannedOp {
  query::PlanOpId plan_op;
  query::TrackRole role = query::TrackRole::kHost;  // of the stream that it runs on
  int64_t started_ns = 0;                           // from the start of the step
  int64_t ended_ns = 0;
};

// Why there is none.
enum class PlanProblem : uint8_t {
  kNone,
  kNoStep,      // some rank has finished no step of this Schedule
  kNoSchedule,  // the trace has no text of it
  kUnreadable,  // or one that cannot be read or run
  kMissingRanks
};

struct PlannedStep {
  PlanProblem problem = PlanProblem::kNone;
  std::set<query::ScheduleId> schedules;            // all with its text: each file has a row
  int num_steps = 0;                                // whose medians the durations are
  int64_t length_ns = 0;                            // to the last end of any rank
  std::map<int32_t, std::vector<PlannedOp>> ranks;  // what takes time, by start
};

// Durations are medians over the newest steps of this Schedule, warm-up left out if there are
// others; those of collectives count from the last rank's arrival.
PlannedStep PlanStep(const query::Snapshot& snapshot, query::ScheduleId schedule);

// How a step went beside its plan.
struct PlanDifference {
  int32_t step = -1;
  int64_t planned_ns = 0;
  int64_t actual_ns = 0;  // from the first rank's start to the last one's end
  // Issued after an op that the plan has behind it, or begun so on its stream.
  std::vector<SelectedOp> out_of_order;
};
PlanDifference CompareWithPlan(const query::Snapshot& snapshot, const PlannedStep& planned,
                               int32_t step);

struct PlanBesideActual {
  int32_t step = -1;  // -1: none is finished
  PlannedStep planned;
  PlanDifference difference;
};
// Of a finished step, else the newest one. `known`: whose plan is taken where it is of the same
// Schedule; it may be null.
std::shared_ptr<const PlanBesideActual> PlanBeside(const query::Snapshot& snapshot, int32_t step,
                                                   const PlanBesideActual* known);

}  // namespace shardscope::ui
