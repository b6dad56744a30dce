#include "trace/query/live_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <semaphore>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "trace/base/free_memory.h"
#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "trace/base/units.h"
#include "trace/query/bounded_builder.h"
#include "trace/query/finished_trace.h"
#include "trace/query/rows.h"
#include "trace/query/run_part.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"
#include "trace/store/trace_file.h"

namespace shardscope::query {
namespace {

// New rows are on screen within 100 ms of what they tell: they are committed every 25 ms, and a
// frame takes up to 33.
constexpr auto kPollTime = std::chrono::milliseconds(16);
// A run that rests is asked less often: the first row after a pause is on screen within 200 ms.
constexpr auto kRestingPollTime = std::chrono::milliseconds(80);
constexpr int kPollsUntilRest = 120;

// Whether there is anything new to show. The clock's row of each second alone changes no picture,
// and with each row the tables without ids come again: a paused run's app shall rest.
class News {
 public:
  bool In(const store::RowBatch& batch) {
    bool is_news = false;
    for (size_t i = 0; i < schema::kNumTables; ++i) {
      const store::AnyRows& rows = batch.At(i);
      const bool has_news = rows.table().has_id && i != store::kTable<schema::ClockRow>.index;
      is_news = is_news || (has_news && rows.size() > 0);
    }
    for (const schema::MetaRow& row : batch.Get<schema::MetaRow>()) {
      std::string& known = meta_[row.key];
      is_news = is_news || known != row.value;
      known = row.value;
    }
    return is_news;
  }

 private:
  std::map<std::string, std::string> meta_;
};

class Follower final : public PublishingTrace {
 public:
  Follower(std::unique_ptr<store::Source> source, std::string folder, std::string name,
           std::function<void()> on_change, int64_t memory_bytes)
      : source_(std::move(source)),
        builder_(std::move(folder), std::move(name), memory_bytes),
        on_change_(std::move(on_change)) {
    Publish(builder_.Publish(store::SourceState::kLive));
  }

  ~Follower() override {
    {
      const MutexLock lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  // The first rows are there before the thread starts, so that a caller sees them (and the errors
  // of a bad file) at once.
  Status Start() {
    bool done = false;
    SHARDSCOPE_RETURN_IF_ERROR(ReadOnce(&done).status());
    if (source_->state() != store::SourceState::kLive) builder_.KeepAll();
    if (!done) thread_ = std::thread([this] { Follow(); });
    return Status::Ok();
  }

 private:
  // true: more rows wait. *done: no more will come.
  Result<bool> ReadOnce(bool* done) {
    store::RowBatch batch;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, source_->Read(&batch));
    const bool ended = source_->state() != store::SourceState::kLive;
    // The state is published only with the last rows.
    *done = ended && !more;
    const bool is_news = news_.In(batch) || more != is_behind_;
    is_behind_ = more;
    builder_.Add(std::move(batch), more);
    if (!is_news && !*done) return more;
    Publish(builder_.Publish(*done ? source_->state() : store::SourceState::kLive));
    changed_ = true;
    return more;
  }

  void Follow() {
    bool done = false;
    int polls_without_news = 0;
    while (!done) {
      const Result<bool> more = ReadOnce(&done);
      ++polls_without_news;
      if (changed_ || !more.ok()) {
        changed_ = false;
        polls_without_news = 0;
        if (!more.ok()) {
          builder_.GiveUp();
          Publish(builder_.Publish(store::SourceState::kLive));
          SetStatus(more.status());
        }
        if (on_change_) on_change_();
      }
      if (!more.ok()) return;
      MutexLock lock(mutex_);
      const auto wait = polls_without_news < kPollsUntilRest ? kPollTime : kRestingPollTime;
      if (!more.value())
        wake_.wait_for(lock, wait, [this]() REQUIRES(mutex_) { return stopping_; });
      if (stopping_) return;
    }
  }

  std::unique_ptr<store::Source> source_;  // reader thread
  BoundedBuilder builder_;                 // reader thread
  News news_;                              // reader thread
  const std::function<void()> on_change_;
  bool changed_ = false;    // reader thread
  bool is_behind_ = false;  // reader thread: rows waited after the last read

  Mutex mutex_;
  CondVar wake_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

namespace fs = std::filesystem;

// Takes the time of a file as the run's beginning if it is the earliest.
void Found(const fs::path& file, RunOnDisk* run) {
  std::error_code error;
  if (!fs::is_regular_file(file, error)) return;
  const fs::file_time_type time = fs::last_write_time(file, error);
  if (error) return;
  run->began = run->found ? std::min(run->began, time) : time;
  run->found = true;
}

Status CheckMemoryFor(const store::RunFiles& run) {
  int64_t bytes = 0;
  int64_t bytes_of_rows = 0;
  for (const store::TraceFile& file : run.traces) {
    if (!store::Exists(file.FinishedPath())) continue;
    bytes += store::DatabaseBytes(file.FinishedPath());
    bytes_of_rows += store::FinishedSource::BytesOfRows(file);
  }
  if (bytes < store::FinishedSource::kLargeBytes) return Status::Ok();
  const int64_t needed = MemoryForRows(bytes_of_rows);
  const int64_t free = FreeMemoryBytes();
  if (needed <= free) return Status::Ok();
  return Status::Error(fmt::format(
      "all rows of {} need some {} of memory, and {} are free: close other programs, or "
      "look at some of its steps in `shardscope open`",
      run.path, FormatBytes(needed), FormatBytes(free)));
}

// With what is made of new rows while the old ones are shown it is half as much again.
int64_t MemoryForLive(const ReadLimits& limits) {
  constexpr int64_t kMostBytesWhileLive = 2'000'000'000;
  if (limits.memory_bytes > 0) return limits.memory_bytes;
  return std::min(kMostBytesWhileLive, MemoryToUse(limits, {}));
}

// Null: not one for it.
Result<std::unique_ptr<LiveTrace>> OpenFinished(const store::RunFiles& run,
                                                const std::function<void()>& on_change,
                                                const ReadLimits& limits) {
  const bool may_be_small = limits.memory_bytes > 0;  // the caller says how much, of any run
  return FinishedTrace::OpenLarge(run, on_change, limits,
                                  may_be_small ? 1 : store::FinishedSource::kLargeBytes);
}

}  // namespace

Result<std::unique_ptr<LiveTrace>> LiveTrace::Open(const std::string& path,
                                                   std::function<void()> on_change,
                                                   const ReadLimits& limits) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::RunFiles run, store::FindRun(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(std::unique_ptr<LiveTrace> finished,
                              OpenFinished(run, on_change, limits));
  if (finished != nullptr) return finished;
  Result<std::unique_ptr<store::RunSource>> source = store::RunSource::Open(run);
  if (!source.ok()) return source.status();
  return Follow(std::move(source).value(), run.path, run.name, std::move(on_change), limits);
}

Result<std::unique_ptr<LiveTrace>> LiveTrace::Follow(std::unique_ptr<store::Source> source,
                                                     std::string folder, std::string name,
                                                     std::function<void()> on_change,
                                                     const ReadLimits& limits) {
  auto follower = std::make_unique<Follower>(std::move(source), std::move(folder), std::move(name),
                                             std::move(on_change), MemoryForLive(limits));
  SHARDSCOPE_RETURN_IF_ERROR(follower->Start());
  return std::unique_ptr<LiveTrace>(std::move(follower));
}

Result<SnapshotPtr> ReadSnapshot(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  return ReadSnapshotOf(run);
}

Result<SnapshotPtr> ReadSnapshotOf(const store::RunFiles& run) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckMemoryFor(run));
  SHARDSCOPE_ASSIGN_OR_RETURN(std::unique_ptr<store::RunSource> source,
                              store::RunSource::Open(run, store::RunSource::Purpose::kReadOnce));
  SnapshotBuilder builder(run.path, run.name);
  while (true) {
    store::RowBatch batch;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, source->Read(&batch));
    builder.Add(batch);
    if (!more) return builder.Publish(source->state());
  }
}

Result<SnapshotPtr> ReadSnapshotWithin(const std::string& path, const ReadLimits& limits,
                                       const std::stop_token& stop) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
  std::counting_semaphore<2> is_over(0);  // read, stopped or both
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<LiveTrace> trace,
                              OpenFinished(
                                  run, [&is_over] { is_over.release(); }, limits));
  if (trace == nullptr) return ReadSnapshotOf(run);
  const std::stop_callback on_stop(stop, [&is_over] { is_over.release(); });
  is_over.acquire();
  if (stop.stop_requested()) return Status::Error(path + ": reading was stopped");
  SHARDSCOPE_RETURN_IF_ERROR(trace->status());
  return trace->Latest();
}

RunOnDisk LookAtRun(const std::string& path) {
  std::error_code error;
  const bool folder = fs::is_directory(path, error);
  const std::vector<store::TraceFile> traces =
      folder ? store::ListTraces(path) : std::vector{store::TraceFileOf(path)};
  RunOnDisk run;
  if (folder) Found(fs::path(path) / "run.toml", &run);
  for (const store::TraceFile& trace : traces) {
    const std::vector<int64_t> segments = store::LiveSegments(trace);
    Found(segments.empty() ? trace.FinishedPath() : trace.LivePath(segments.front()), &run);
    run.live = run.live || (!segments.empty() && store::WriterLives(trace));
  }
  return run;
}

}  // namespace shardscope::query
