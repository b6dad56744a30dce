// PlanWorkers: has the plan of a step made, and the text of a Schedule read, so that no frame waits
// for them.
//
// Owner's thread only; workers have their own threads.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "trace/query/snapshot.h"
#include "ui/context.h"
#include "ui/shell/run/lens_workers.h"
#include "ui/shell/run/schedule_worker.h"

namespace shardscope::shell {

class PlanWorkers {
 public:
  // `wake` is called on any thread when there is something new.
  explicit PlanWorkers(std::function<void()> wake) : wake_(std::move(wake)) {}

  // Once a frame: has the plan of `step` made, or that of the newest step before it that all ranks
  // have finished, and puts it into `plan`. `shown`: the rows; null: none are there. `at_once`: on
  // this thread, for pictures.
  void UpdatePlan(bool at_once, const query::SnapshotPtr& shown, int32_t step, ui::PlanState* plan);
  // Once a frame: has the text read that is asked for, and puts the newest answer into `schedule`.
  void UpdateSchedule(bool at_once, ui::ScheduleState* schedule);
  // Others have taken the place of all rows. What is answered stays.
  void ForgetRows();

 private:
  const std::function<void()> wake_;
  std::unique_ptr<PlanWorker> plan_;          // from the first plan on
  std::optional<int32_t> asked_;              // of which step; none: not of these rows yet
  std::unique_ptr<ScheduleWorker> schedule_;  // from the first text on
};

}  // namespace shardscope::shell
