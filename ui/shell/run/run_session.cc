#include "ui/shell/run/run_session.h"

#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "ui/timeline/run_index.h"

namespace shardscope::shell {
namespace {

constexpr double kLogSeconds = 0.5;
constexpr size_t kMaxLogLines = 2000;
constexpr int64_t kMaxLogRead = 256 * 1024;  // bytes a look; of a longer log only the end is read

}  // namespace

Result<std::unique_ptr<RunSession>> RunSession::Open(const std::string& path,
                                                     std::function<void()> wake) {
  std::unique_ptr<RunSession> session(new RunSession());
  auto trace = query::LiveTrace::Open(path, wake);
  if (!trace.ok()) return trace.status();
  session->wake_ = wake;
  session->trace_ = std::move(trace).value();
  session->worker_ = std::make_unique<ReportWorker>(wake);
  session->control_ = std::make_unique<ControlLink>(session->trace_->Latest()->run_folder);
  return session;
}

std::unique_ptr<RunSession> RunSession::OfSnapshot(query::SnapshotPtr snapshot) {
  std::unique_ptr<RunSession> session(new RunSession());
  session->fixed_findings_ = MakeFindings(*snapshot);
  session->requested_ = std::move(snapshot);
  return session;
}

RunSession::~RunSession() { trace_.reset(); }

void RunSession::ReadLog(const std::string& folder, ui::Context* context) {
  std::ifstream file(std::filesystem::path(folder) / "log.txt", std::ios::binary);
  if (!file) return;
  file.seekg(0, std::ios::end);
  const int64_t size = file.tellg();
  if (size <= log_offset_) return;
  log_offset_ = std::max(log_offset_, size - kMaxLogRead);
  file.seekg(log_offset_);
  std::string line;
  while (std::getline(file, line)) {
    if (file.eof()) break;  // not yet a whole line
    log_offset_ += static_cast<int64_t>(line.size()) + 1;
    context->log.push_back(line);
  }
  if (context->log.size() > kMaxLogLines) {
    context->log.erase(context->log.begin(),
                       context->log.end() - static_cast<std::ptrdiff_t>(kMaxLogLines));
  }
}

query::SnapshotPtr RunSession::TakeSnapshot(ui::Context* context) {
  query::SnapshotPtr newest = trace_->Latest();
  if (newest != requested_) {
    const bool replaces = requested_ != nullptr && newest->generation < requested_->generation;
    requested_ = newest;
    worker_->Request(newest);
    if (replaces) {
      next_index_ = std::async(std::launch::async, [newest, wake = wake_] {
        auto index = std::make_shared<timeline::RunIndex>();
        index->Advance(*newest);
        if (wake) wake();
        return index;
      });
    } else {
      shown_ = newest;
    }
  }
  if (next_index_.valid()) {
    const FindingsPtr findings = worker_->Latest();
    const bool ready = findings != nullptr && !findings->loading &&
                       next_index_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
    if (ready) {
      index_ = next_index_.get();
      shown_ = requested_;
    }
  }
  if (!trace_->status().ok()) context->error = trace_->status().message();
  return shown_;
}

void RunSession::Update(double now_seconds, ui::Context* context) {
  if (trace_ == nullptr) {
    context->snapshot = requested_;
    context->report = fixed_findings_->report;
    context->change = fixed_findings_->change;
    live_ = false;
    return;
  }
  query::SnapshotPtr snapshot = TakeSnapshot(context);
  live_ = snapshot->state == query::TraceState::kLive;
  context->snapshot = std::move(snapshot);
  context->index = index_;
  const FindingsPtr findings = worker_->Latest();
  if (findings != nullptr && findings->loading == context->snapshot->loading) {
    context->report = findings->report;
    context->change = findings->change;
  }
  control_->Update(now_seconds, live_);
  context->control = control_->state();
  if (now_seconds >= next_log_seconds_) {
    next_log_seconds_ = now_seconds + kLogSeconds;
    ReadLog(context->snapshot->run_folder, context);
  }
}

}  // namespace shardscope::shell
