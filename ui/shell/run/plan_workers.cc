#include "ui/shell/run/plan_workers.h"

#include "ui/shell/run/finished_step.h"

namespace shardscope::shell {

void PlanWorkers::UpdatePlan(bool at_once, const query::SnapshotPtr& shown, int32_t step,
                             ui::PlanState* plan) {
  if (!plan->is_on || shown == nullptr) {
    asked_.reset();
    if (plan_ != nullptr) plan_->Forget();
    return;
  }
  // One of a finished step stays as it is while the run goes on.
  const int32_t wanted = FinishedStepFor(*shown, step);
  const PlanRequest request{shown, wanted, asked_ ? plan->made : nullptr,
                            query::MayGrow(shown->state)};
  const bool is_new = std::exchange(asked_, wanted) != wanted;
  if (at_once) {
    if (is_new) plan->made = MakePlan(request, {});
    return;
  }
  if (plan_ == nullptr) plan_ = std::make_unique<PlanWorker>(MakePlan, wake_);
  if (is_new) plan_->Ask(request);
  if (auto latest = plan_->Latest()) plan->made = std::move(latest);
}

void PlanWorkers::UpdateSchedule(bool at_once, ui::ScheduleState* schedule) {
  if (schedule->asked == nullptr) return;
  const bool is_made = schedule->sheet != nullptr && schedule->sheet->text == schedule->asked;
  if (is_made) return;
  const ScheduleRequest request{schedule->asked, nullptr};
  if (at_once) {
    schedule->sheet = MakeSheet(request, {});
    return;
  }
  if (schedule_ == nullptr) schedule_ = std::make_unique<ScheduleWorker>(MakeSheet, wake_);
  schedule_->Ask(request);
  if (auto latest = schedule_->Latest()) schedule->sheet = std::move(latest);
}

void PlanWorkers::ForgetRows() {
  asked_.reset();
  if (plan_ != nullptr) plan_->Forget();
}

}  // namespace shardscope::shell
