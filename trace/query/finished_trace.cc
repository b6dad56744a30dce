#include "trace/query/finished_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <future>
#include <utility>
#include <vector>

#include "trace/base/free_memory.h"
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
// What loads in half a minute: of a run that fits into the first from packed rows, of the part of
// another from a file that has none.
constexpr int64_t kMostBytesOfAll = 3'000'000'000;
constexpr int64_t kMostBytesOfPart = 1'700'000'000;
// Of a part of several files, whose collectives are read to find how clocks differ.
constexpr int64_t kStepsToMatch = 4;
// Kernels and ranges that are read at once: some 0.2 s. Of fewer steps where they are more.
constexpr size_t kSpansAtOnce = 100'000;

// What is read at once.
struct FirstSteps {
  int64_t first = 0;
  int64_t last_in_view = 0;
};

FirstSteps FirstStepsOf(const store::StepBounds& bounds, const std::optional<int64_t>& around,
                        const std::vector<store::RowBatch>& tables) {
  FirstSteps steps{bounds.last_step - kStepsAtOnce + 1, bounds.last_step};
  if (around) {
    const int64_t step = std::clamp(*around, bounds.first_step, bounds.last_step);
    return {std::max(step - kStepsBefore, bounds.first_step), step};
  }
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

// From a Snapshot with all step rows, and the first ones of what came before.
void SetRunTimes(const Snapshot& run, RunPart* part) {
  for (const RankRows& rank : run.ranks) {
    for (const Step& row : rank.steps) part->end_ns = std::max(part->end_ns, row.end_ns);
  }
  AddStepStarts(run, part);
  part->start_ns = run.start_ns;
}

// Figures of the whole run, which are not made anew. GPUs have none; and where they cannot be read,
// all rows still can. On a thread of their own: SQLite takes a second for a million of them.
Derived ReadDerived(const std::vector<int32_t>& ranks, const std::atomic<bool>& stopping,
                    store::FinishedSource* source) {
  DerivedMaker maker(ranks);
  const Status read =
      source->ReadDerived([&maker](store::RowBatch* rows) { maker.Add(rows); }, &stopping);
  if (!read.ok() || stopping) return {};
  return maker.Make();
}

}  // namespace

int64_t MemoryToUse(const ReadLimits& limits, const RunMemory& needed) {
  if (limits.memory_bytes > 0) return limits.memory_bytes;
  const int64_t most = needed.by_rows <= kMostBytesOfAll ? kMostBytesOfAll : kMostBytesOfPart;
  return std::min(most + needed.by_ranks, MemoryToTake(!limits.keeps_own));
}

Result<std::unique_ptr<LiveTrace>> FinishedTrace::OpenLarge(const store::RunFiles& run,
                                                            const std::function<void()>& on_change,
                                                            const ReadLimits& limits,
                                                            int64_t least_bytes) {
  std::unique_ptr<FinishedTrace> trace(new FinishedTrace(run, on_change));
  int64_t bytes = 0;
  int64_t bytes_of_rows = 0;
  int64_t num_ranks = 0;
  for (const store::TraceFile& file : run.traces) {
    SHARDSCOPE_ASSIGN_OR_RETURN(auto source, store::FinishedSource::Open(file, 0));
    if (source == nullptr) return std::unique_ptr<LiveTrace>();
    bytes += store::DatabaseBytes(file.FinishedPath());
    bytes_of_rows += source->BytesOfRows();
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t ranks_of_file, source->NumRanks());
    num_ranks += ranks_of_file;
    trace->sources_.push_back(std::move(source));
  }
  if (bytes < least_bytes) return std::unique_ptr<LiveTrace>();
  trace->around_step_ = limits.around_step;
  const RunMemory needed = MemoryForRun(bytes_of_rows, num_ranks);
  SHARDSCOPE_RETURN_IF_ERROR(trace->Start(needed, MemoryToUse(limits, needed)));
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

Status FinishedTrace::Start(const RunMemory& needed, int64_t memory_bytes) {
  for (const auto& source : sources_) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::StepBounds bounds, source->Bounds());
    bounds_ = Joined(bounds_, bounds);
  }
  store::RowBatch first;
  int64_t shown = bounds_.last_step;
  SHARDSCOPE_RETURN_IF_ERROR(ReadFirst(&first, &shown));
  part_ = PartThatFits(bounds_.first_step, bounds_.last_step, shown, needed, memory_bytes);
  SnapshotBuilder builder(run_.path, run_.name);
  builder.Add(first);
  if (bounds_.end_ns > bounds_.start_ns) builder.Extend(bounds_.start_ns, bounds_.end_ns);
  Publish(builder.PublishLoading(State()));
  thread_ = std::thread([this] { Load(); });
  return Status::Ok();
}

Status FinishedTrace::ReadFirst(store::RowBatch* batch, int64_t* shown) {
  std::vector<store::RowBatch> files(sources_.size());
  for (size_t i = 0; i < files.size(); ++i) {
    SHARDSCOPE_RETURN_IF_ERROR(sources_[i]->ReadSmallTables(&files[i]));
  }
  const FirstSteps first = FirstStepsOf(bounds_, around_step_, files);
  *shown = first.last_in_view;
  for (size_t i = 0; i < files.size(); ++i) {
    store::FinishedSource* const source = sources_[i].get();
    SHARDSCOPE_RETURN_IF_ERROR(
        source->ReadSteps(first.first, first.first + kStepsAtOnce - 1, &files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(ReadSpansOf(first, kSpansAtOnce / files.size(), source, &files[i]));
  }
  *batch = store::MergeFiles(run_, std::move(files));
  return Status::Ok();
}

Result<store::RowBatch> FinishedTrace::ReadTimes() {
  const int64_t first = bounds_.first_step;
  const int64_t matched = std::max(part_->first_step, first + 1);
  const int64_t last_matched = std::min(part_->first_step + kStepsToMatch - 1, part_->last_step);
  std::vector<store::RowBatch> files(sources_.size());
  for (size_t i = 0; i < files.size() && !stopping_; ++i) {
    store::FinishedSource* const source = sources_[i].get();
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadSmallTables(&files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadEarliest(&files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadSteps(first, first, &files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadStepRows(first + 1, matched - 1, &files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadSteps(matched, last_matched, &files[i]));
    SHARDSCOPE_RETURN_IF_ERROR(
        source->ReadStepRows(last_matched + 1, bounds_.last_step, &files[i]));
  }
  if (stopping_) return Status::Error(run_.path + ": reading was stopped");
  return store::MergeFiles(run_, std::move(files));
}

// Its times are on the clock of the first file, told by collectives of the first steps.
Result<PartFilter> FinishedTrace::FilterOfPart() {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::RowBatch rows, ReadTimes());
  SnapshotBuilder builder(run_.path, run_.name);
  builder.Add(rows);
  SetRunTimes(*builder.Publish(State()), &*part_);
  const PartTimes times = TimesOfPart(*part_, rows.Get<schema::StepRow>());
  if (times.from_ns > times.to_ns) {
    return Status::Error(fmt::format("{}: steps {} to {} have no times; go to another step",
                                     run_.path, part_->first_step, part_->last_step));
  }
  return PartFilter(*part_, times);
}

Status FinishedTrace::LoadFile(PartFilter* filter, SnapshotBuilder* builder) {
  store::FinishedSource* const source = sources_.front().get();
  store::RowBatch batch;
  SHARDSCOPE_RETURN_IF_ERROR(source->ReadSmallTables(&batch));
  std::future<Derived> derived;
  if (filter == nullptr) {
    builder->Add(batch);
    derived = std::async(std::launch::async, [this, source, ranks = builder->Ranks()] {
      return ReadDerived(ranks, stopping_, source);
    });
  }
  const Status read = LoadRows(filter, std::move(batch), builder);
  if (derived.valid()) builder->SetDerived(derived.get());
  return read;
}

Status FinishedTrace::LoadRows(PartFilter* filter, store::RowBatch batch,
                               SnapshotBuilder* builder) {
  store::FinishedSource* const source = sources_.front().get();
  if (filter == nullptr) {
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadNext(&batch));
  } else {
    source->Limit(filter->limits());
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadMemoryHeld(stopping_, &batch));
  }
  while (!stopping_ && !store::IsEmpty(batch)) {
    if (filter != nullptr) filter->Keep(&batch);
    builder->Add(batch);
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadNext(&batch));
  }
  return Status::Ok();
}

Status FinishedTrace::LoadFiles(PartFilter* filter, SnapshotBuilder* builder) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<store::RunSource> source,
                              store::RunSource::Open(run_, store::RunSource::Purpose::kReadOnce));
  while (!stopping_) {
    store::RowBatch batch;
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool more, source->Read(&batch));
    if (filter != nullptr) filter->Keep(&batch);
    builder->Add(batch);
    if (!more) return Status::Ok();
  }
  return Status::Ok();
}

Status FinishedTrace::LoadAll(SnapshotBuilder* builder) {
  std::optional<PartFilter> filter;
  if (part_) {
    SHARDSCOPE_ASSIGN_OR_RETURN(filter, FilterOfPart());
    builder->SetPart(*part_);
  }
  PartFilter* const only = filter ? &*filter : nullptr;
  SHARDSCOPE_RETURN_IF_ERROR(sources_.size() == 1 ? LoadFile(only, builder)
                                                  : LoadFiles(only, builder));
  if (filter) builder->Add(filter->TakeRest());
  return Status::Ok();
}

void FinishedTrace::Load() {
  SnapshotBuilder builder(run_.path, run_.name);
  const Status status = LoadAll(&builder);
  if (stopping_) return;
  // What could be read is shown, with the error.
  SetStatus(status);
  Publish(builder.Publish(State()));
  if (on_change_) on_change_();
}

}  // namespace shardscope::query
