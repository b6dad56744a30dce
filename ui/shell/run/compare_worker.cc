#include "ui/shell/run/compare_worker.h"

#include <chrono>
#include <utility>

#include "trace/analysis/steps/breakdown.h"
#include "trace/import/cache.h"
#include "trace/query/live_trace.h"
#include "ui/open_error.h"

namespace shardscope::shell {
namespace {

constexpr auto kCompareInterval = std::chrono::seconds(1);  // while A goes on

Status CheckSteps(const char* side, const std::optional<analysis::Scope>& steps,
                  const query::Snapshot& snapshot) {
  if (!steps) return Status::Ok();
  const Status status = analysis::CheckHasSteps(*steps, analysis::Breakdowns(snapshot));
  return status.ok() ? status : Status::Error(std::string(side) + ": " + status.message());
}

// All; where `other` is loaded in part its steps, if `one` has any of them.
analysis::Scope StepsLike(const query::Snapshot& other, const query::Snapshot& one) {
  if (!other.part) return {};
  const analysis::Scope loaded{.kind = analysis::ScopeKind::kSteps,
                               .first = static_cast<int32_t>(other.part->first_step),
                               .last = static_cast<int32_t>(other.part->last_step)};
  return analysis::CheckHasSteps(loaded, analysis::Breakdowns(one)).ok() ? loaded
                                                                         : analysis::Scope();
}

}  // namespace

Status CompareMaker::ReadB(const query::Snapshot& a, const ui::ComparedWith& with,
                           const std::stop_token& stop) {
  if (read_for_ != with) {
    read_for_.reset();
    b_ = query::SnapshotPtr();  // freed before the next one is read
    b_ = Read(a, with, stop);
    if (!stop.stop_requested()) read_for_ = with;
  }
  return b_.status();
}

Result<query::SnapshotPtr> CompareMaker::Read(const query::Snapshot& a,
                                              const ui::ComparedWith& with,
                                              const std::stop_token& stop) const {
  imports::ImportOptions options;
  options.progress = [this, &stop](int64_t read_bytes, int64_t all_bytes) {
    if (progress_ && all_bytes > 0) {
      progress_(static_cast<double>(read_bytes) / static_cast<double>(all_bytes));
    }
    return !stop.stop_requested();
  };
  if (progress_) progress_(0);
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, imports::RunOf(with.path, options));
  // If it does not fit, around the steps that are asked for, else those that are loaded of A.
  query::ReadLimits limits{.memory_bytes = memory_bytes_, .keeps_own = true};
  if (with.steps_b) {
    limits.around_step = (int64_t{with.steps_b->first} + with.steps_b->last) / 2;
  } else if (a.part) {
    limits.around_step = (a.part->first_step + a.part->last_step) / 2;
  }
  return query::ReadSnapshotWithin(run, limits, stop);
}

std::shared_ptr<const ui::Compared> CompareMaker::Make(const CompareRequest& request,
                                                       const std::stop_token& stop) {
  const ui::ComparedWith& with = *request.with;
  auto made = std::make_shared<ui::Compared>();
  made->with = with;
  const query::Snapshot& a = *request.snapshot;
  Status status = with.path.empty() ? Status::Ok() : ReadB(a, with, stop);
  made->is_missing = !status.ok() && ui::IsMissing(with.path);
  if (stop.stop_requested()) return nullptr;
  const query::Snapshot& b = with.path.empty() || !status.ok() ? a : **b_;
  if (status.ok()) status = CheckSteps("A", with.steps_a, a);
  if (status.ok()) status = CheckSteps("B", with.steps_b, b);
  if (!status.ok()) {
    made->error = status.message();
    return made;
  }
  if (!with.path.empty()) made->b = *b_;
  made->comparison = analysis::Compare({&a, with.steps_a.value_or(StepsLike(b, a)), a.name},
                                       {&b, with.steps_b.value_or(StepsLike(a, b)), b.name});
  return made;
}

CompareWorker::CompareWorker(std::function<void()> wake, int64_t memory_bytes)
    : progress_wake_(wake),
      maker_([this](double share) { Progress(share); }, memory_bytes),
      worker_([this](const CompareRequest& request,
                     const std::stop_token& stop) { return maker_.Make(request, stop); },
              std::move(wake), kCompareInterval) {}

void CompareWorker::Progress(double share) {
  share_ = share;
  progress_wake_.Tell();
}

}  // namespace shardscope::shell
