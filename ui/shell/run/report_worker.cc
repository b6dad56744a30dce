#include "ui/shell/run/report_worker.h"

#include <chrono>

#include "ui/shell/run/change_summary.h"

namespace shardscope::shell {
namespace {

constexpr auto kMinimumInterval = std::chrono::milliseconds(100);

}  // namespace

FindingsPtr MakeFindings(const query::Snapshot& snapshot) {
  auto findings = std::make_shared<Findings>();
  auto report = std::make_shared<analysis::Report>(analysis::MakeReport(snapshot));
  findings->change = SummarizeChange(snapshot, report->steps);
  findings->report = std::move(report);
  findings->loading = snapshot.loading;
  return findings;
}

ReportWorker::ReportWorker(std::function<void()> wake)
    : wake_(std::move(wake)), thread_([this] { Run(); }) {}

ReportWorker::~ReportWorker() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  requested_.notify_one();
  thread_.join();
}

void ReportWorker::Request(query::SnapshotPtr snapshot) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_ = std::move(snapshot);
  }
  requested_.notify_one();
}

FindingsPtr ReportWorker::Latest() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return latest_;
}

void ReportWorker::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    requested_.wait(lock, [this] { return stop_ || next_ != nullptr; });
    if (stop_) return;
    const query::SnapshotPtr snapshot = std::move(next_);
    next_ = nullptr;
    lock.unlock();
    FindingsPtr findings = MakeFindings(*snapshot);
    lock.lock();
    latest_ = std::move(findings);
    lock.unlock();
    if (wake_) wake_();
    lock.lock();
    requested_.wait_for(lock, kMinimumInterval, [this] { return stop_; });
  }
}

}  // namespace shardscope::shell
