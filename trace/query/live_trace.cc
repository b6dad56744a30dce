#include "trace/query/live_trace.h"

#include <map>
#include <string>
#include <thread>
#include <type_traits>

#include "trace/base/mutex.h"
#include "trace/query/finished_trace.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/finished/finished_source.h"
#include "trace/store/run_files.h"
#include "trace/store/run_source.h"

namespace shardscope::query {
namespace {

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

// mutex_ is never held while reading a file.
class Follower final : public LiveTrace {
 public:
  Follower(std::unique_ptr<store::Source> source, std::string folder, std::string name,
           std::function<void()> on_change)
      : source_(std::move(source)),
        builder_(std::move(folder), std::move(name)),
        on_change_(std::move(on_change)),
        latest_(builder_.Publish(store::SourceState::kLive)) {}

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
    const Result<bool> more = ReadOnce(&done);
    if (!more.ok()) return more.status();
    if (!done) thread_ = std::thread([this] { Follow(); });
    return Status::Ok();
  }

  SnapshotPtr Latest() const override {
    const MutexLock lock(mutex_);
    return latest_;
  }

  Status status() const override {
    const MutexLock lock(mutex_);
    return status_;
  }

 private:
  // true: more rows wait. *done: no more will come.
  Result<bool> ReadOnce(bool* done) {
    store::RowBatch batch;
    const Result<bool> more = source_->Read(&batch);
    if (!more.ok()) return more.status();
    const bool ended = source_->state() != store::SourceState::kLive;
    // The state is told only with the last rows.
    *done = ended && !more.value();
    builder_.Add(batch);
    if (!news_.In(batch) && !*done) return more.value();
    SnapshotPtr snapshot = builder_.Publish(*done ? source_->state() : store::SourceState::kLive);
    const MutexLock lock(mutex_);
    latest_ = std::move(snapshot);
    changed_ = true;
    return more.value();
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
          const MutexLock lock(mutex_);
          status_ = more.status();
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
  SnapshotBuilder builder_;                // reader thread
  News news_;                              // reader thread
  const std::function<void()> on_change_;
  bool changed_ = false;  // reader thread

  mutable Mutex mutex_;
  CondVar wake_;
  SnapshotPtr latest_ GUARDED_BY(mutex_);
  Status status_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<LiveTrace>> LiveTrace::Open(const std::string& path,
                                                   std::function<void()> on_change) {
  Result<store::RunFiles> run = store::FindRun(path);
  if (!run.ok()) return run.status();
  if (run->traces.size() == 1) {
    auto finished = store::FinishedSource::Open(run->traces.front());
    if (!finished.ok()) return finished.status();
    if (finished.value() != nullptr) {
      return OpenFinishedTrace(std::move(finished).value(), run->path, run->name,
                               std::move(on_change));
    }
  }
  Result<std::unique_ptr<store::RunSource>> source = store::RunSource::Open(*run);
  if (!source.ok()) return source.status();
  return Follow(std::move(source).value(), run->path, run->name, std::move(on_change));
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
  const Result<store::RunFiles> run = store::FindRun(path);
  if (!run.ok()) return run.status();
  Result<std::unique_ptr<store::RunSource>> source =
      store::RunSource::Open(run.value(), store::RunSource::Purpose::kReadOnce);
  if (!source.ok()) return source.status();
  SnapshotBuilder builder(run.value().path, run.value().name);
  while (true) {
    store::RowBatch batch;
    const Result<bool> more = source.value()->Read(&batch);
    if (!more.ok()) return more.status();
    builder.Add(batch);
    if (!more.value()) return builder.Publish(source.value()->state());
  }
}

}  // namespace shardscope::query
