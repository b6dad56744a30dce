// What the time lens, the plan and the critical path show of a step, made on threads of their own.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>

#include "trace/analysis/explain/critical_path.h"
#include "trace/analysis/moment/moment.h"
#include "trace/query/snapshot.h"
#include "ui/planned_step.h"
#include "ui/shell/run/newest_worker.h"

namespace shardscope::shell {

// The moments of a stretch of a run.
struct MomentsRequest {
  query::SnapshotPtr snapshot;
  Interval range;
  bool operator==(const MomentsRequest&) const = default;
  bool Asks(const MomentsRequest& other) const { return range == other.range; }
  // Later rows change nothing of what has ended, but those that a preview does not have.
  bool IsAnsweredBy(const std::shared_ptr<const analysis::Moments>& moments) const {
    return moments != nullptr && moments->range() == range &&
           moments->snapshot()->loading == snapshot->loading;
  }
};
using MomentsWorker = NewestWorker<MomentsRequest, analysis::Moments>;
inline std::shared_ptr<const analysis::Moments> MakeMoments(const MomentsRequest& request,
                                                            const std::stop_token&) {
  return std::make_shared<const analysis::Moments>(request.snapshot, request.range);
}

// Whether `step` may be answered at leisure where `other` is in the making: while a run goes on
// (`goes_on`) its newest step changes faster than some answers are made, and those that gave way to
// the next one each time would never come.
inline bool Follows(bool goes_on, int32_t step, int32_t other) {
  return step == other || (goes_on && other >= 0 && step > other);
}

// The plan of a step.
struct PlanRequest {
  query::SnapshotPtr snapshot;
  int32_t step = -1;
  std::shared_ptr<const ui::PlanBesideActual> known;  // its plan serves for the same Schedule
  bool goes_on = false;
  bool operator==(const PlanRequest&) const = default;
  bool Asks(const PlanRequest& other) const { return Follows(goes_on, step, other.step); }
};
using PlanWorker = NewestWorker<PlanRequest, ui::PlanBesideActual>;
inline std::shared_ptr<const ui::PlanBesideActual> MakePlan(const PlanRequest& request,
                                                            const std::stop_token&) {
  return ui::PlanBeside(*request.snapshot, request.step, request.known.get());
}

// The critical path of a step that all ranks have finished, which later rows do not change.
struct PathRequest {
  query::SnapshotPtr snapshot;
  int32_t step = -1;
  bool goes_on = false;
  bool operator==(const PathRequest&) const = default;
  bool Asks(const PathRequest& other) const { return Follows(goes_on, step, other.step); }
};
using PathWorker = NewestWorker<PathRequest, analysis::StepPath>;
inline std::shared_ptr<const analysis::StepPath> MakePath(const PathRequest& request,
                                                          const std::stop_token&) {
  return std::make_shared<const analysis::StepPath>(
      analysis::PathOfStep(*request.snapshot, request.step));
}

}  // namespace shardscope::shell
