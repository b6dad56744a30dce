#include "ui/shell/run/critical_paths.h"

#include "ui/shell/run/finished_step.h"

namespace shardscope::shell {
namespace {

constexpr size_t kMostPaths = 64;  // that are kept of a run

}  // namespace

void CriticalPaths::Update(bool at_once, const query::SnapshotPtr& shown, int32_t step,
                           ui::CriticalPathState* path) {
  // Of a preview there are only some rows.
  if (!path->is_on || shown == nullptr || shown->loading) {
    path->made = nullptr;
    if (worker_ != nullptr) worker_->Forget();
    return;
  }
  const int32_t wanted = FinishedStepFor(*shown, step);
  auto known = paths_.find(wanted);
  if (known == paths_.end() && wanted >= 0) {
    const PathRequest request{shown, wanted, query::MayGrow(shown->state)};
    std::shared_ptr<const analysis::StepPath> made;
    if (at_once) {
      made = MakePath(request, {});
    } else {
      if (worker_ == nullptr) worker_ = std::make_unique<PathWorker>(MakePath, wake_);
      worker_->Ask(request);
      made = worker_->Latest();
    }
    // That of a step before it is shown until then, where it is newer than what is shown.
    const bool is_newer = made != nullptr && made->step < wanted &&
                          (path->made == nullptr || made->step > path->made->step);
    if (made != nullptr && (made->step == wanted || is_newer)) {
      if (paths_.size() >= kMostPaths) paths_.clear();
      known = paths_.emplace(made->step, std::move(made)).first;
    }
  }
  if (known != paths_.end()) path->made = known->second;
}

}  // namespace shardscope::shell
