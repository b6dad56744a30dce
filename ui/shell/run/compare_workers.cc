#include "ui/shell/run/compare_workers.h"

#include "ui/shell/run/finished_step.h"

namespace shardscope::shell {

void CompareWorkers::UpdateCompare(bool at_once, const query::SnapshotPtr& shown, bool in_front,
                                   ui::CompareState* compare) {
  if (!compare->asked || shown == nullptr) {
    compare->made = nullptr;
    if (compare_ != nullptr) compare_->Forget();
    return;
  }
  if (shown->loading) return;  // of a preview there are only some rows
  const CompareRequest request{shown, compare->asked};
  if (at_once) {
    if (compare->is_making()) compare->made = CompareMaker({}, memory_bytes_).Make(request, {});
    return;
  }
  if (compare_ == nullptr) compare_ = std::make_unique<CompareWorker>(wake_, memory_bytes_);
  if (in_front || compare->is_making()) compare_->Ask(request);
  if (auto latest = compare_->Latest()) compare->made = std::move(latest);
  compare->share = compare_->share();
}

void CompareWorkers::UpdateBeside(bool at_once, const query::SnapshotPtr& shown, int32_t step,
                                  const ui::Selection& selection, ui::CompareState* compare) {
  const bool is_wanted = compare->under_lanes && shown != nullptr && !shown->loading &&
                         compare->made != nullptr && compare->made->error.empty();
  if (!is_wanted) {
    asked_ = {};
    compare->beside = nullptr;
    if (beside_ != nullptr) beside_->Forget();
    return;
  }
  const int32_t wanted = FinishedStepFor(*shown, step);
  BesideRequest request{shown, compare->made, wanted, {}};
  if (!selection.op_run.is_none()) request.selected = {selection.op_run, selection.rank};
  const bool is_new = !request.Asks(asked_);
  asked_ = request;
  if (at_once) {
    if (is_new) compare->beside = MakeBeside(request, {});
    return;
  }
  if (beside_ == nullptr) beside_ = std::make_unique<BesideWorker>(MakeBeside, wake_);
  if (is_new) beside_->Ask(request);
  if (auto latest = beside_->Latest()) compare->beside = std::move(latest);
}

void CompareWorkers::ForgetRows() {
  if (beside_ != nullptr) beside_->Forget();
  asked_ = {};
}

}  // namespace shardscope::shell
