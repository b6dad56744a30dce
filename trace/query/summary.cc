#include "trace/query/summary.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "trace/query/rows.h"
#include "trace/query/sane.h"
#include "trace/query/snapshot_builder.h"
#include "trace/query/step_times.h"
#include "trace/store/finished_source.h"
#include "trace/store/finisher.h"
#include "trace/store/run_files.h"

namespace shardscope::query {
namespace {

// Whether the file has all ranks of its run: what is derived compares them.
bool IsWholeRun(const store::RowBatch& tables) {
  for (const schema::ConfigRow& row : tables.Get<schema::ConfigRow>()) {
    if (row.key == "run.ranks") {
      return row.value == std::to_string(tables.Get<schema::RankRow>().size());
    }
  }
  return true;
}

template <typename Row>
void MoveNumbered(std::vector<Row>* rows, store::RowBatch* batch) {
  for (size_t i = 0; i < rows->size(); ++i) {
    (*rows)[i].id = decltype(Row::id)(static_cast<int64_t>(i) + 1);
  }
  batch->Get<Row>() = std::move(*rows);
}

Status DeriveSteps(const Deriver& deriver, const store::RowBatch& tables,
                   store::FinishedSource* source, DerivedRows* rows) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const store::StepBounds bounds, source->Bounds());
  for (int64_t first = bounds.first_step; first <= bounds.last_step;) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t last, source->LastStepOfPart(first));
    store::RowBatch steps;
    SHARDSCOPE_RETURN_IF_ERROR(source->ReadSteps(first, last, &steps));
    SnapshotBuilder part("", "");
    part.Add(tables);
    part.Add(steps);
    deriver.derive_steps(*part.Publish(store::SourceState::kFinished), rows);
    first = last + 1;
    const auto done = static_cast<double>(first - bounds.first_step);
    const auto all = static_cast<double>(bounds.last_step + 1 - bounds.first_step);
    store::TellFinishProgress(
        store::kCopiedPercent +
        static_cast<int>((store::kDerivedPercent - store::kCopiedPercent) * done / all));
  }
  return Status::Ok();
}

Status DeriveMemory(const Deriver& deriver, const store::RowBatch& tables,
                    store::FinishedSource* source, DerivedRows* rows) {
  SnapshotBuilder memory("", "");
  memory.Add(tables);
  store::RowBatch steps;
  SHARDSCOPE_RETURN_IF_ERROR(source->ReadStepRows(INT64_MIN, INT64_MAX, &steps));
  memory.Add(steps);
  while (true) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::RowBatch events, source->ReadMemory());
    if (store::IsEmpty(events)) break;
    memory.Add(events);
  }
  deriver.derive_memory(*memory.Publish(store::SourceState::kFinished), rows);
  return Status::Ok();
}

Result<store::RowBatch> Derive(const Deriver& deriver, const std::string& path) {
  store::RowBatch batch;
  SHARDSCOPE_ASSIGN_OR_RETURN(auto source, store::FinishedSource::OpenFile(path));
  store::RowBatch tables;
  SHARDSCOPE_RETURN_IF_ERROR(source->ReadSmallTables(&tables));
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool has_gpu_rows, source->HasGpuRows());
  if (has_gpu_rows || !IsWholeRun(tables)) return batch;
  DerivedRows rows;
  SHARDSCOPE_RETURN_IF_ERROR(DeriveSteps(deriver, tables, source.get(), &rows));
  SHARDSCOPE_RETURN_IF_ERROR(DeriveMemory(deriver, tables, source.get(), &rows));
  MoveNumbered(&rows.step_parts, &batch);
  std::vector<schema::StallRow> stalls;
  stalls.reserve(rows.stalls.all().size());
  for (const KeptStall& stall : rows.stalls.all()) stalls.push_back(rows.stalls.Row(stall));
  rows.stalls = {};
  MoveNumbered(&stalls, &batch);
  MoveNumbered(&rows.slow_collectives, &batch);
  MoveNumbered(&rows.memory_peaks, &batch);
  MoveNumbered(&rows.front_parts, &batch);
  MoveNumbered(&rows.path_parts, &batch);
  return batch;
}

static_assert(kLargeRunBytes == store::FinishedSource::kLargeBytes);

struct StepRange {
  int64_t first = 0;
  int64_t last = -1;
};

// A finished file with derived rows, and what of it a summary has.
class SummaryReader {
 public:
  // Null: it has none.
  static Result<std::unique_ptr<SummaryReader>> Open(const std::string& path, int64_t least_bytes) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::RunFiles run, store::FindRun(path));
    if (run.traces.size() != 1) return std::unique_ptr<SummaryReader>();
    auto source = store::FinishedSource::Open(run.traces.front(), least_bytes);
    if (!source.ok()) return source.status();
    if (source.value() == nullptr) return std::unique_ptr<SummaryReader>();
    std::unique_ptr<SummaryReader> reader(
        new SummaryReader(std::move(source).value(), run.path, run.name));
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool has_derived, reader->ReadTables());
    return has_derived ? std::move(reader) : std::unique_ptr<SummaryReader>();
  }

  SnapshotPtr Publish() {
    return builder_.Publish(source_->cut() ? store::SourceState::kCut
                                           : store::SourceState::kFinished);
  }

  Result<bool> HasSpans() { return source_->HasSpans(); }

  // Op runs and collectives of the first step.
  Status AddFirstStep() { return AddSteps({first_step_, first_step_}); }

  // Op runs and collectives of these steps, of the first and of unfinished ones, and memory as it
  // was meanwhile.
  Status AddRowsOf(const Snapshot& summary, std::vector<StepRange> steps);

 private:
  SummaryReader(std::unique_ptr<store::FinishedSource> source, const std::string& folder,
                const std::string& name)
      : source_(std::move(source)), builder_(folder, name) {}

  // False: there are no derived rows.
  Result<bool> ReadTables() {
    SHARDSCOPE_ASSIGN_OR_RETURN(const bool has_derived, source_->HasDerived());
    if (!has_derived) return false;
    store::RowBatch tables;
    SHARDSCOPE_RETURN_IF_ERROR(source_->ReadSmallTables(&tables));
    builder_.Add(tables);
    store::RowBatch steps;
    SHARDSCOPE_RETURN_IF_ERROR(source_->ReadStepRows(INT64_MIN, INT64_MAX, &steps));
    builder_.Add(steps);
    SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t num_op_runs, source_->NumOpRuns());
    builder_.SetSummary(num_op_runs);
    DerivedMaker maker(builder_.Ranks());
    SHARDSCOPE_RETURN_IF_ERROR(
        source_->ReadDerived([&maker](store::RowBatch* rows) { maker.Add(rows); }));
    Derived derived = maker.Make();
    if (derived.rows == nullptr) return false;
    builder_.SetDerived(std::move(derived));
    SHARDSCOPE_ASSIGN_OR_RETURN(const store::StepBounds bounds, source_->Bounds());
    first_step_ = bounds.first_step;
    return true;
  }

  // Op runs and collectives; their step rows are there already.
  Status AddSteps(const StepRange& steps) {
    store::RowBatch rows;
    SHARDSCOPE_RETURN_IF_ERROR(source_->ReadSteps(steps.first, steps.last, &rows));
    rows.Get<schema::StepRow>().clear();
    builder_.Add(rows);
    return Status::Ok();
  }

  Status AddMemory(const std::vector<TimeRange>& windows);

  std::unique_ptr<store::FinishedSource> source_;
  SnapshotBuilder builder_;
  int64_t first_step_ = 0;
};

// Sorted, those that touch joined.
std::vector<StepRange> Joined(std::vector<StepRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const StepRange& a, const StepRange& b) { return a.first < b.first; });
  std::vector<StepRange> joined;
  for (const StepRange& range : ranges) {
    if (range.last < range.first) continue;
    if (joined.empty() || range.first > joined.back().last + 1) {
      joined.push_back(range);
    } else {
      joined.back().last = std::max(joined.back().last, range.last);
    }
  }
  return joined;
}

// Of any rank; empty if there is none.
StepRange StepsTouching(const Snapshot& summary, const TimeRange& times) {
  StepRange range;
  for (const RankRows& rows : summary.ranks) {
    for (const Step& step : rows.steps) {
      if (step.end_ns < times.from_ns || step.start_ns > times.to_ns) continue;
      const bool empty = range.last < range.first;
      range.first = empty ? step.step : std::min<int64_t>(range.first, step.step);
      range.last = std::max<int64_t>(range.last, step.step);
    }
  }
  return range;
}

// From the first step that some rank has not finished: most runs have none.
StepRange UnfinishedSteps(const Snapshot& summary) {
  int64_t first = store::kMaxStep;
  for (const RankRows& rows : summary.ranks) {
    first = std::min<int64_t>(first, rows.steps.empty() ? 0 : rows.steps.back().step + 1);
  }
  return {first, store::kMaxStep};
}

// When any rank was in these steps; those that overlap joined. In front of the first step and
// behind the last lies what is of none.
std::vector<TimeRange> WindowsOf(const Snapshot& summary, const std::vector<StepRange>& ranges) {
  std::vector<TimeRange> windows;
  int64_t end_ns = 0;
  for (const RankRows& rows : summary.ranks) {
    for (const Step& step : rows.steps) end_ns = std::max(end_ns, step.end_ns);
  }
  for (const StepRange& range : ranges) {
    const bool is_last = range.last >= store::kMaxStep;
    const std::optional<Interval> times =
        TimesOfSteps(summary, static_cast<int>(range.first), static_cast<int>(range.last));
    if (!times && !is_last) continue;
    TimeRange window{times ? times->start_ns : end_ns, is_last ? INT64_MAX : times->end_ns};
    if (windows.empty()) window.from_ns = 0;
    if (!windows.empty() && window.from_ns <= windows.back().to_ns) {
      windows.back().to_ns = std::max(windows.back().to_ns, window.to_ns);
    } else {
      windows.push_back(window);
    }
  }
  return windows;
}

// What of the memory events lies outside of all windows, as one event in front of the next window.
class OutsideMemory {
 public:
  explicit OutsideMemory(const std::vector<TimeRange>& windows) : windows_(windows) {}

  // false: it is inside of a window, or cannot be, so that it is added as it is. The last window
  // has no end.
  bool Take(const store::MemoryChange& change) {
    const std::optional<MemoryCategory> category = ParseMemoryCategory(change.category);
    const bool sane = change.rank >= 0 && change.rank <= kMaxRank && category &&
                      IsStepOfOp(change.step) && SaneTime(change.issued_ns) &&
                      SaneTime(change.executed_ns) && SaneCount(change.bytes);
    if (!sane) return false;
    times_.from_ns = std::min(times_.from_ns, change.issued_ns);
    times_.to_ns = std::max(times_.to_ns, change.executed_ns);
    const auto next = std::partition_point(
        windows_.begin(), windows_.end(),
        [&change](const TimeRange& window) { return window.to_ns < change.executed_ns; });
    if (change.executed_ns >= next->from_ns) return false;
    const auto window = static_cast<size_t>(next - windows_.begin());
    std::vector<int64_t>& sums = sums_[{window, change.rank, change.step != -1}];
    sums.resize(kNumMemoryCategories);
    sums[static_cast<size_t>(*category)] += change.bytes;
    return true;
  }

  void AddTo(SnapshotBuilder* builder) const {
    store::RowBatch batch;
    for (const auto& [key, sums] : sums_) {
      const auto& [window, rank, of_step] = key;
      const int64_t before_ns = windows_[window].from_ns - 1;
      for (size_t at = 0; at < sums.size(); ++at) {
        if (sums[at] == 0) continue;
        schema::MemoryEventRow row;
        row.rank = rank;
        row.issued_ns = row.executed_ns = before_ns;
        row.bytes = sums[at];
        row.category = Name(static_cast<MemoryCategory>(at));
        row.step = of_step ? 0 : -1;
        batch.Get<schema::MemoryEventRow>().push_back(row);
      }
    }
    builder->Add(batch);
    if (times_.from_ns <= times_.to_ns) builder->Extend(times_.from_ns, times_.to_ns);
  }

 private:
  const std::vector<TimeRange>& windows_;
  TimeRange times_{INT64_MAX, INT64_MIN};  // of all events
  std::map<std::tuple<size_t, int64_t, bool>, std::vector<int64_t>> sums_;
};

Status SummaryReader::AddMemory(const std::vector<TimeRange>& windows) {
  OutsideMemory outside(windows);
  store::RowBatch inside;
  SHARDSCOPE_RETURN_IF_ERROR(source_->ForEachMemoryChange([&](const store::MemoryChange& change) {
    if (outside.Take(change)) return;
    schema::MemoryEventRow row;
    row.rank = change.rank;
    row.issued_ns = change.issued_ns;
    row.executed_ns = change.executed_ns;
    row.bytes = change.bytes;
    row.step = change.step;
    row.category = change.category;
    inside.Get<schema::MemoryEventRow>().push_back(row);
  }));
  outside.AddTo(&builder_);
  builder_.Add(inside);
  return Status::Ok();
}

Status SummaryReader::AddRowsOf(const Snapshot& summary, std::vector<StepRange> steps) {
  steps.push_back({first_step_, first_step_});
  steps.push_back(UnfinishedSteps(summary));
  steps = Joined(std::move(steps));
  // Apart, so that ids ascend: rows of a step mix with those of its neighbours only.
  for (const StepRange& range : steps) SHARDSCOPE_RETURN_IF_ERROR(AddSteps(range));
  store::RowBatch counters;
  SHARDSCOPE_RETURN_IF_ERROR(source_->ReadCounters(&counters));
  builder_.Add(counters);
  return AddMemory(WindowsOf(summary, steps));
}

}  // namespace

void DeriveWhileFinishing(const Deriver& deriver) {
  store::SetDerive([deriver](const std::string& path) { return Derive(deriver, path); });
}

Result<SnapshotPtr> ReadSummary(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto reader, SummaryReader::Open(path, 0));
  if (reader == nullptr) return SnapshotPtr();
  SHARDSCOPE_RETURN_IF_ERROR(reader->AddFirstStep());
  return reader->Publish();
}

Result<SnapshotPtr> ReadSummaryAround(const std::string& path, const ChooseTimes& choose,
                                      int64_t least_bytes) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const auto reader, SummaryReader::Open(path, least_bytes));
  if (reader == nullptr) return SnapshotPtr();
  SHARDSCOPE_ASSIGN_OR_RETURN(const bool has_spans, reader->HasSpans());
  const SnapshotPtr summary = reader->Publish();
  const std::optional<std::vector<TimeRange>> times = choose(*summary);
  if (has_spans || !times) return SnapshotPtr();
  std::vector<StepRange> steps;
  for (const TimeRange& range : *times) {
    const StepRange touching = StepsTouching(*summary, range);
    if (touching.first <= touching.last) steps.push_back({touching.first - 1, touching.last + 1});
  }
  SHARDSCOPE_RETURN_IF_ERROR(reader->AddRowsOf(*summary, std::move(steps)));
  return reader->Publish();
}

}  // namespace shardscope::query
