#include "trace/query/live_trace.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/base/status.h"
#include "trace/query/rows.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/finished_source.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"
#include "trace/store/trace_file.h"

namespace shardscope::query {
namespace {

// Steps that are read at once: what the app shows first, and some to move in.
constexpr int64_t kStepsBefore = 4;
constexpr int64_t kStepsAtOnce = 16;
// Of them the app shows these first: the last ones, or up to the step of the newest change.
constexpr int64_t kStepsInView = 3;
// Kernels and ranges that are read at once: some 0.2 s. Of fewer steps where they are more.
constexpr size_t kSpansAtOnce = 100'000;

// What is read at once.
struct FirstSteps {
  int64_t first = 0;
  int64_t last_in_view = 0;
};

FirstSteps FirstStepsOf(const store::StepBounds& bounds, const store::RowBatch& tables) {
  FirstSteps steps{bounds.last_step - kStepsAtOnce + 1, bounds.last_step};
  for (const schema::MarkerRow& marker : tables.Get<schema::MarkerRow>()) {
    const bool inside = marker.step > bounds.first_step && marker.step <= bounds.last_step;
    if (IsKnobChange(marker) && inside) steps = {marker.step - kStepsBefore, marker.step};
  }
  steps.first = std::max(steps.first, bounds.first_step);
  return steps;
}

// Spans and GPU work of all steps in `batch`, or else of those in view, or of the last of them.
Status ReadSpansOf(const FirstSteps& steps, store::FinishedSource* source, store::RowBatch* batch) {
  for (const int64_t first :
       {steps.first, steps.last_in_view - kStepsInView + 1, steps.last_in_view}) {
    const int64_t last = first == steps.first ? INT64_MAX : steps.last_in_view;
    int64_t from_ns = INT64_MAX;
    int64_t to_ns = INT64_MIN;
    for (const schema::StepRow& step : batch->Get<schema::StepRow>()) {
      if (step.step < first || step.step > last) continue;
      from_ns = std::min(from_ns, step.start_ns);
      to_ns = std::max(to_ns, step.end_ns);
    }
    const Result<bool> read = source->ReadSpans(from_ns, to_ns, kSpansAtOnce, batch);
    if (!read.ok() || read.value()) return read.status();
  }
  return Status::Ok();
}

// What a reading thread has published for the others.
class PublishingTrace : public LiveTrace {
 public:
  SnapshotPtr Latest() const final {
    const MutexLock lock(mutex_);
    return latest_;
  }
  Status status() const final {
    const MutexLock lock(mutex_);
    return status_;
  }

 protected:
  void Publish(SnapshotPtr snapshot) {
    const MutexLock lock(mutex_);
    latest_ = std::move(snapshot);
  }
  void SetStatus(const Status& status) {
    const MutexLock lock(mutex_);
    status_ = status;
  }

 private:
  mutable Mutex mutex_;
  SnapshotPtr latest_ GUARDED_BY(mutex_);
  Status status_ GUARDED_BY(mutex_);
};

class FinishedTrace final : public PublishingTrace {
 public:
  FinishedTrace(std::unique_ptr<store::FinishedSource> source, std::string folder, std::string name,
                std::function<void()> on_change)
      : source_(std::move(source)),
        folder_(std::move(folder)),
        name_(std::move(name)),
        on_change_(std::move(on_change)) {}

  ~FinishedTrace() override {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

  Status Start() {
    store::RowBatch tables;
    SHARDSCOPE_RETURN_IF_ERROR(source_->ReadSmallTables(&tables));
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::StepBounds bounds, source_->Bounds());
    store::RowBatch steps;
    const FirstSteps first = FirstStepsOf(bounds, tables);
    SHARDSCOPE_RETURN_IF_ERROR(
        source_->ReadSteps(first.first, first.first + kStepsAtOnce - 1, &steps));
    SHARDSCOPE_RETURN_IF_ERROR(ReadSpansOf(first, source_.get(), &steps));
    SnapshotBuilder builder(folder_, name_);
    builder.Add(tables);
    builder.Add(steps);
    if (bounds.end_ns > bounds.start_ns) builder.Extend(bounds.start_ns, bounds.end_ns);
    Publish(builder.PublishLoading(State()));
    thread_ = std::thread([this, tables = std::move(tables)] { Load(tables); });
    return Status::Ok();
  }

 private:
  store::SourceState State() const {
    return source_->cut() ? store::SourceState::kCut : store::SourceState::kFinished;
  }

  Status LoadInto(SnapshotBuilder* builder) {
    while (!stopping_) {
      SHARDSCOPE_ASSIGN_OR_RETURN(const store::RowBatch batch, source_->ReadNext());
      if (store::IsEmpty(batch)) return Status::Ok();
      builder->Add(batch);
    }
    return Status::Ok();
  }

  void Load(const store::RowBatch& tables) {
    SnapshotBuilder builder(folder_, name_);
    builder.Add(tables);
    const Status status = LoadInto(&builder);
    if (stopping_) return;
    // What could be read is shown, with the error.
    SetStatus(status);
    Publish(builder.Publish(State()));
    if (on_change_) on_change_();
  }

  std::unique_ptr<store::FinishedSource> source_;  // of thread_, once that runs
  const std::string folder_;
  const std::string name_;
  const std::function<void()> on_change_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// New rows are on screen within 100 ms of their commit.
constexpr auto kPollTime = std::chrono::milliseconds(40);
// Also after a pause, but a run that rests is asked half as often.
constexpr auto kRestingPollTime = std::chrono::milliseconds(80);
constexpr int kPollsUntilRest = 50;

// Whether there is anything new to show. The clock's row of each second alone changes no picture,
// and with each row the tables without ids come again: a paused run's app shall rest.
class News {
 public:
  bool In(const store::RowBatch& batch) {
    bool is_news = false;
    schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
      if constexpr (schema::TableOf<Row>::kHasId && !std::is_same_v<Row, schema::ClockRow>) {
        is_news = is_news || !batch.Get<Row>().empty();
      }
    });
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
           std::function<void()> on_change)
      : source_(std::move(source)),
        builder_(std::move(folder), std::move(name)),
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
    builder_.Add(batch);
    if (!news_.In(batch) && !*done) return more;
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
        if (!more.ok()) SetStatus(more.status());
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
  SnapshotBuilder builder_;                // reader thread
  News news_;                              // reader thread
  const std::function<void()> on_change_;
  bool changed_ = false;  // reader thread

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

}  // namespace

Result<std::unique_ptr<LiveTrace>> LiveTrace::Open(const std::string& path,
                                                   std::function<void()> on_change) {
  SHARDSCOPE_ASSIGN_OR_RETURN(store::RunFiles run, store::FindRun(path));
  if (run.traces.size() == 1) {
    SHARDSCOPE_ASSIGN_OR_RETURN(auto finished, store::FinishedSource::Open(run.traces.front()));
    if (finished != nullptr) {
      return Load(std::move(finished), run.path, run.name, std::move(on_change));
    }
  }
  Result<std::unique_ptr<store::RunSource>> source = store::RunSource::Open(run);
  if (!source.ok()) return source.status();
  return Follow(std::move(source).value(), run.path, run.name, std::move(on_change));
}

Result<std::unique_ptr<LiveTrace>> LiveTrace::Load(std::unique_ptr<store::FinishedSource> source,
                                                   std::string folder, std::string name,
                                                   std::function<void()> on_change) {
  auto trace = std::make_unique<FinishedTrace>(std::move(source), std::move(folder),
                                               std::move(name), std::move(on_change));
  SHARDSCOPE_RETURN_IF_ERROR(trace->Start());
  return std::unique_ptr<LiveTrace>(std::move(trace));
}

Result<std::unique_ptr<LiveTrace>> LiveTrace::Follow(std::unique_ptr<store::Source> source,
                                                     std::string folder, std::string name,
                                                     std::function<void()> on_change) {
  auto follower = std::make_unique<Follower>(std::move(source), std::move(folder), std::move(name),
                                             std::move(on_change));
  SHARDSCOPE_RETURN_IF_ERROR(follower->Start());
  return std::unique_ptr<LiveTrace>(std::move(follower));
}

Result<SnapshotPtr> ReadSnapshot(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
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
