#include "trace/query/finished_trace.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/query/knob_change.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/finished/finished_source.h"

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

// mutex_ is never held while reading the file.
class FinishedTrace final : public LiveTrace {
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
    const Result<store::StepBounds> bounds = source_->Bounds();
    if (!bounds.ok()) return bounds.status();
    store::RowBatch steps;
    const FirstSteps first = FirstStepsOf(bounds.value(), tables);
    SHARDSCOPE_RETURN_IF_ERROR(
        source_->ReadSteps(first.first, first.first + kStepsAtOnce - 1, &steps));
    SHARDSCOPE_RETURN_IF_ERROR(ReadSpansOf(first, source_.get(), &steps));
    SnapshotBuilder builder(folder_, name_);
    builder.Add(tables);
    builder.Add(steps);
    if (bounds->end_ns > bounds->start_ns) builder.Extend(bounds->start_ns, bounds->end_ns);
    {
      const MutexLock lock(mutex_);
      latest_ = builder.PublishLoading(State());
    }
    thread_ = std::thread([this, tables = std::move(tables)] { Load(tables); });
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
  store::SourceState State() const {
    return source_->cut() ? store::SourceState::kCut : store::SourceState::kFinished;
  }

  Status LoadInto(SnapshotBuilder* builder) {
    while (!stopping_) {
      const Result<store::RowBatch> batch = source_->ReadNext();
      if (!batch.ok()) return batch.status();
      if (store::IsEmpty(batch.value())) return Status::Ok();
      builder->Add(batch.value());
    }
    return Status::Ok();
  }

  void Load(const store::RowBatch& tables) {
    SnapshotBuilder builder(folder_, name_);
    builder.Add(tables);
    const Status status = LoadInto(&builder);
    if (stopping_) return;
    // What could be read is shown, with the error.
    SnapshotPtr snapshot = builder.Publish(State());
    {
      const MutexLock lock(mutex_);
      status_ = status;
      latest_ = std::move(snapshot);
    }
    if (on_change_) on_change_();
  }

  std::unique_ptr<store::FinishedSource> source_;  // of thread_, once that runs
  const std::string folder_;
  const std::string name_;
  const std::function<void()> on_change_;
  std::atomic<bool> stopping_{false};

  mutable Mutex mutex_;
  SnapshotPtr latest_ GUARDED_BY(mutex_);
  Status status_ GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<LiveTrace>> OpenFinishedTrace(std::unique_ptr<store::FinishedSource> source,
                                                     std::string folder, std::string name,
                                                     std::function<void()> on_change) {
  auto trace = std::make_unique<FinishedTrace>(std::move(source), std::move(folder),
                                               std::move(name), std::move(on_change));
  SHARDSCOPE_RETURN_IF_ERROR(trace->Start());
  return std::unique_ptr<LiveTrace>(std::move(trace));
}

}  // namespace shardscope::query
