#include "ui/shell/run/report_worker.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "trace/base/mutex.h"
#include "ui/shell/run/change_summary.h"

namespace shardscope::shell {
namespace {

constexpr auto kMinimumInterval = std::chrono::milliseconds(100);

}  // namespace

FindingsPtr FindingsMaker::Make(query::SnapshotPtr snapshot, const analysis::Scope& scope) {
  if (snapshot == made_of_) {
    auto findings = std::make_shared<Findings>(*findings_);
    findings->figures = std::make_shared<analysis::Figures>(
        analysis::MakeFigures(*snapshot, findings->report->steps, scope));
    return findings_ = std::move(findings);
  }
  const bool grows = query::MayGrow(snapshot->state);
  const bool replaced = made_of_ == nullptr || snapshot->generation < made_of_->generation;
  if (!grows || replaced) cache_ = {};
  auto findings = std::make_shared<Findings>();
  auto report = std::make_shared<analysis::Report>(
      analysis::MakeReport(*snapshot, {.scope = scope, .cache = grows ? &cache_ : nullptr}));
  findings->figures = std::shared_ptr<const analysis::Figures>(report, &report->figures);
  findings->change = SummarizeChange(*snapshot, report->steps);
  findings->report = std::move(report);
  findings->loading = snapshot->loading;
  made_of_ = std::move(snapshot);
  return findings_ = std::move(findings);
}

ReportWorker::ReportWorker(std::function<void()> wake)
    : wake_(std::move(wake)), thread_([this] { Run(); }) {}

ReportWorker::~ReportWorker() {
  {
    const MutexLock lock(mutex_);
    stop_ = true;
  }
  requested_.notify_one();
  thread_.join();
}

void ReportWorker::Request(query::SnapshotPtr snapshot, const analysis::Scope& scope) {
  {
    const MutexLock lock(mutex_);
    next_ = std::move(snapshot);
    next_scope_ = scope;
  }
  requested_.notify_one();
}

FindingsPtr ReportWorker::Latest() const {
  const MutexLock lock(mutex_);
  return latest_;
}

void ReportWorker::Run() {
  using Clock = std::chrono::steady_clock;
  FindingsMaker maker;
  MutexLock lock(mutex_);
  while (true) {
    requested_.wait(lock, [this]() REQUIRES(mutex_) { return stop_ || next_ != nullptr; });
    if (stop_) return;
    query::SnapshotPtr snapshot = std::exchange(next_, nullptr);
    const analysis::Scope scope = next_scope_;
    lock.unlock();
    const bool grows = query::MayGrow(snapshot->state);
    const Clock::time_point begin = Clock::now();
    FindingsPtr findings = maker.Make(std::move(snapshot), scope);
    // Reports of a run that goes on leave half of a core to its training.
    const auto rest = grows ? std::max<Clock::duration>(kMinimumInterval, Clock::now() - begin)
                            : Clock::duration(kMinimumInterval);
    lock.lock();
    latest_ = std::move(findings);
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
    requested_.wait_for(lock, rest, [this]() REQUIRES(mutex_) { return stop_; });
  }
}

}  // namespace shardscope::shell
