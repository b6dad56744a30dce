#include "ui/shell/run/run_importer.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

#include "trace/base/time.h"
#include "trace/import/cache.h"

namespace shardscope::shell {

RunImporter::RunImporter(std::string path, std::function<void()> wake,
                         const query::ReadLimits& limits)
    : path_(std::move(path)),
      wake_(std::move(wake)),
      limits_(limits),
      progress_wake_(wake_),
      thread_([this] { Run(); }) {}

RunImporter::~RunImporter() {
  Cancel();
  thread_.join();
  std::error_code ignored;
  if (!preview_folder_.empty()) std::filesystem::remove_all(preview_folder_, ignored);
}

bool RunImporter::Progress(int64_t read_bytes, int64_t all_bytes) {
  read_bytes_ = read_bytes;
  all_bytes_ = all_bytes;
  progress_wake_.Tell();
  return !cancelled_;
}

// Without one the run is still whole.
void RunImporter::MakePreview() {
  if (imports::IsCached(path_) || !imports::IsWorthAPreview(path_)) return;
  imports::ImportOptions options;
  options.progress = [this](int64_t, int64_t) { return !cancelled_; };
  const Result<std::string> folder = imports::ImportPreview(path_, options);
  if (!folder.ok()) return;
  preview_folder_ = *folder;
  Result<std::unique_ptr<RunSession>> session = RunSession::Open(*folder, wake_);
  if (!session.ok()) return;
  const MutexLock lock(mutex_);
  preview_ = std::move(*session);
}

void RunImporter::Run() {
  MakePreview();
  if (wake_) wake_();
  began_ns_ = MonotonicNs();
  imports::ImportOptions options;
  options.progress = [this](int64_t read_bytes, int64_t all_bytes) {
    return Progress(read_bytes, all_bytes);
  };
  const Result<imports::ImportedRun> imported = imports::ImportCached(path_, options);
  Result<std::unique_ptr<RunSession>> run =
      imported.ok() ? RunSession::Open(imported->folder, wake_, limits_) : imported.status();
  {
    const MutexLock lock(mutex_);
    if (!cancelled_) run_ = std::move(run);
  }
  ended_ = true;
  if (wake_) wake_();
}

double RunImporter::share() const {
  const int64_t all_bytes = all_bytes_;
  if (all_bytes <= 0) return 0;
  return static_cast<double>(read_bytes_) / static_cast<double>(all_bytes);
}

int64_t RunImporter::left_ns() const {
  const double done = share();
  if (done <= 0) return 0;
  const auto spent_ns = static_cast<double>(MonotonicNs() - began_ns_);
  return static_cast<int64_t>(spent_ns * (1 - done) / done);
}

std::unique_ptr<RunSession> RunImporter::TakePreview() {
  const MutexLock lock(mutex_);
  return std::move(preview_);
}

std::optional<Result<std::unique_ptr<RunSession>>> RunImporter::TakeRun() {
  const MutexLock lock(mutex_);
  return std::exchange(run_, std::nullopt);
}

}  // namespace shardscope::shell
