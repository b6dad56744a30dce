#include "trace/query/finished_trace.h"

#include <algorithm>
#include <cstdint>

#include "trace/query/rows.h"
#include "trace/query/snapshot_builder.h"
#include "trace/store/run_source.h"

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

FirstSteps FirstStepsOf(const store::StepBounds& bounds,
                        const std::vector<store::RowBatch>& tables) {
  FirstSteps steps{bounds.last_step - kStepsAtOnce + 1, bounds.last_step};
  for (const store::RowBatch& of_file : tables) {
    for (const schema::MarkerRow& marker : of_file.Get<schema::MarkerRow>()) {
      const bool inside = marker.step > bounds.first_step && marker.step <= bounds.last_step;
      if (IsKnobChange(marker) && inside) steps = {marker.step - kStepsBefore, marker.step};
    }
  }
  steps.first = std::max(steps.first, bounds.first_step);
  return steps;
}

// Spans and GPU work of all steps in `batch`, or else of those in view, or of the last of them.
Status ReadSpansOf(const FirstSteps& steps, size_t most_rows, store::FinishedSource* source,
                   store::RowBatch* batch) {
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
    const Result<bool> read = source->ReadSpans(from_ns, to_ns, most_rows, batch);
    if (!read.ok() || read.value()) return read.status();
  }
  return Status::Ok();
}

// Of all files together; times are those of the first one.
store::StepBounds Joined(const store::StepBounds& all, const store::StepBounds& one) {
  if (all.last_step < all.first_step) return one;
  if (one.last_step < one.first_step) return all;
  return {std::min(all.first_step, one.first_step), std::max(all.last_step, one.last_step),
          all.start_ns, all.end_ns};
}

}  // namespace

Result<std::unique_ptr<LiveTrace>> FinishedTrace::OpenLarge(const store::RunFiles& run,
                                                            const std::function<void()>& on_change,
                                                            int64_t least_bytes) {
  std::unique_ptr<FinishedTrace> trace(new FinishedTrace(run, on_change));
  int64_t bytes = 0;
  for (const store::TraceFile& file : run.traces) {
    SHARDSCOPE_ASSIGN_OR_RETURN(auto source, store::FinishedSource::Open(file, 0));
    if (source == nullptr) return std::unique_ptr<LiveTrace>();
    bytes += store::DatabaseBytes(file.FinishedPath());
    trace->sources_.push_back(std::move(source));
  }
  if (bytes < least_bytes) return std::unique_ptr<LiveTrace>();
  SHARDSCOPE_RETURN_IF_ERROR(trace->Start());
  return std::unique_ptr<LiveTrace>(std::move(trace));
}

FinishedTrace::~FinishedTrace() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

store::SourceState FinishedTrace::State() const {
  const bool cut = std::ranges::any_of(sources_, [](const auto& source) { return source->cut(); });
  return cut ? store::SourceState::kCut : store::SourceState::kFinished;
}

Status FinishedTrace::Start() {
  for (const auto& source : sources_) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::StepBounds bounds, source->Bounds());
    bounds_ = Joined(bounds_, bounds);
  }
  store::RowBatch first;
  SHARDSCOPE_RETURN_IF_ERROR(ReadFirst(&first));
  SnapshotBuilder builder(run_.path, run_.name);
  builder.Add(first);
  if (bounds_.end_ns > bounds_.start_ns) builder.Extend(bounds_.start_ns, bounds_.end_ns);
  Publish(builder.PublishLoading(State()));
  thread_ = std::thread([this] { Load(); });
  return Status::Ok();
}

Status FinishedTrace::ReadFirst(store::RowBatch* batch) {
  std::vector<store::RowBatch> files(sources_.size());
  for (size_t i = 0; i < files.size(); ++i) {
    SHARDSCOPE_RETURN_IF_ERROR(sources_[i]->ReadSmallTables(&files[i]));
  }
  const FirstSteps first = FirstStepsOf(bounds_, files);
  for (size_t i = 0; i < files.size(); ++i) {
    store::FinishedSource* const source = sources_[i].get();
    SHARDSCOPE_RETURN_IF_ERROR(
        source->ReadSteps(first.first, first.first + kStepsAtOnce - 1, &files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(ReadSpansOf(first, kSpansAtOnce / files.size(), source, &files[i]));
  }
  *batch = store::MergeFiles(run_, std::move(files));
  return Status::Ok();
}

Status FinishedTrace::LoadFile(SnapshotBuilder* builder) {
  store::RowBatch tables;
  SHARDSCOPE_RETURN_IF_ERROR(sources_.front()->ReadSmallTables(&tables));
  builder->Add(tables);
  while (!stopping_) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::RowBatch batch, sources_.front()->ReadNext());
    if (store::IsEmpty(batch)) return Status::Ok();
    builder->Add(batch);
  }
  return Status::Ok();
}

Status FinishedTrace::LoadFiles(SnapshotBuilder* builder) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<store::RunSource> source,
                              store::RunSource::Open(run_, store::RunSource::Purpose::kReadOnce));
  while (!stopping_) {
    store::RowBatch batch;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, source->Read(&batch));
    builder->Add(batch);
    if (!more) return Status::Ok();
  }
  return Status::Ok();
}

void FinishedTrace::Load() {
  SnapshotBuilder builder(run_.path, run_.name);
  const Status status = sources_.size() == 1 ? LoadFile(&builder) : LoadFiles(&builder);
  if (stopping_) return;
  // What could be read is shown, with the error.
  SetStatus(status);
  Publish(builder.Publish(State()));
  if (on_change_) on_change_();
}

}  // namespace shardscope::query
