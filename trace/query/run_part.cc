#include "trace/query/run_part.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "trace/query/rows.h"
#include "trace/query/sane.h"

namespace shardscope::query {
namespace {

// Most is taken by op runs, once as rows and once more in the app's index.
constexpr double kRowsPerFileByte = 0.5;
constexpr double kMemoryPerFileByte = 0.8;
constexpr int64_t kMemoryPerRank = 2'300'000;

constexpr int64_t kNoStep = -1;
constexpr int64_t kLeastSteps = 16;

template <typename Row, typename IsKept>
void KeepIf(const IsKept& is_kept, store::RowBatch* batch) {
  std::erase_if(batch->Get<Row>(), [&is_kept](const Row& row) { return !is_kept(row); });
}

}  // namespace

int64_t MemoryForRows(int64_t file_bytes) {
  return static_cast<int64_t>(kRowsPerFileByte * static_cast<double>(file_bytes));
}

RunMemory MemoryForRun(int64_t file_bytes, int64_t num_ranks) {
  return {static_cast<int64_t>(kMemoryPerFileByte * static_cast<double>(file_bytes)),
          kMemoryPerRank * std::clamp<int64_t>(num_ranks, 0, kMaxRank)};
}

std::optional<RunPart> PartThatFits(int64_t first_of_run, int64_t last_of_run, int64_t around,
                                    const RunMemory& needed, int64_t memory_bytes) {
  const int64_t all = last_of_run - first_of_run + 1;
  if (needed.all() <= memory_bytes || all <= kLeastSteps) return std::nullopt;
  const int64_t for_rows = std::max<int64_t>(memory_bytes - needed.by_ranks, 0);
  const double share = static_cast<double>(for_rows) / static_cast<double>(needed.by_rows) * 2 / 3;
  const int64_t steps =
      std::max(static_cast<int64_t>(static_cast<double>(all) * share), kLeastSteps);
  RunPart part;
  part.first_of_run = first_of_run;
  part.last_of_run = last_of_run;
  part.needed_bytes = needed.all();
  part.first_step = std::clamp(around - steps / 2, first_of_run, last_of_run - steps + 1);
  part.last_step = part.first_step + steps - 1;
  return part;
}

std::optional<int32_t> RunPart::StepAt(int64_t time_ns) const {
  if (step_starts == nullptr) return std::nullopt;
  const auto after = std::ranges::upper_bound(*step_starts, time_ns, {}, &StepStart::start_ns);
  if (after == step_starts->begin()) return std::nullopt;
  return std::prev(after)->step;
}

std::optional<int64_t> RunPart::StartOf(int32_t step) const {
  if (step_starts == nullptr) return std::nullopt;
  const auto at = std::ranges::lower_bound(*step_starts, step, {}, &StepStart::step);
  if (at == step_starts->end() || at->step != step) return std::nullopt;
  return at->start_ns;
}

void AddStepStarts(const Snapshot& rows, RunPart* part) {
  std::map<int32_t, int64_t> starts;
  for (const RankRows& rank : rows.ranks) {
    for (const Step& row : rank.steps) {
      const auto [at, is_new] = starts.emplace(row.step, row.start_ns);
      if (!is_new) at->second = std::min(at->second, row.start_ns);
    }
  }
  auto ascending = std::make_shared<std::vector<RunPart::StepStart>>();
  if (part->step_starts != nullptr) *ascending = *part->step_starts;
  for (const auto& [step, start_ns] : starts) {
    const bool is_first = ascending->empty();
    if (!is_first && step <= ascending->back().step) continue;
    // Clocks may lie.
    ascending->push_back(
        {step, is_first ? start_ns : std::max(start_ns, ascending->back().start_ns)});
  }
  part->step_starts = std::move(ascending);
}

PartTimes TimesOfPart(const RunPart& part, const std::vector<schema::StepRow>& steps) {
  PartTimes times;
  int64_t first = INT64_MAX;
  int64_t last = INT64_MIN;
  for (const schema::StepRow& step : steps) {
    if (!part.Contains(step.step)) continue;
    times.from_ns = std::min(times.from_ns, step.start_ns);
    times.to_ns = std::max(times.to_ns, step.end_ns);
    first = std::min(first, step.step);
    last = std::max(last, step.step);
  }
  for (const schema::StepRow& step : steps) {
    if (step.step == first) times.first_end_ns = std::min(times.first_end_ns, step.end_ns);
    if (step.step == last) times.last_start_ns = std::max(times.last_start_ns, step.start_ns);
  }
  return times;
}

PartFilter::PartFilter(const RunPart& part, const PartTimes& times)
    : limits_{part.first_step, part.last_step, times.from_ns, times.to_ns},
      first_end_ns_(times.first_end_ns),
      last_start_ns_(times.last_start_ns),
      earliest_launch_ns_(times.from_ns - (times.to_ns - times.from_ns)) {
  if (part.first_step == part.first_of_run) {
    limits_.first_step = limits_.from_ns = first_end_ns_ = earliest_launch_ns_ = INT64_MIN;
  }
  if (part.last_step == part.last_of_run) {
    limits_.last_step = limits_.to_ns = last_start_ns_ = INT64_MAX;
  }
}

void PartFilter::Keep(store::RowBatch* batch) {
  // In the order of tables.py: spans in front of what lies beside them.
  schema::ForEachType(schema::AllRows(), [this, batch]<typename Row>() { KeepRows<Row>(batch); });
}

template <typename Row>
void PartFilter::KeepRows(store::RowBatch* batch) {
  using schema::PartRule;
  constexpr PartRule kRule = schema::TableOf<Row>::kPart;
  if constexpr (kRule == PartRule::kSteps) {
    KeepIf<Row>([this](const Row& row) { return IsOfSteps(row); }, batch);
  } else if constexpr (kRule == PartRule::kBetweenSteps) {
    // Their step is the one before which they were.
    KeepIf<Row>([this](const Row& row) { return IsBehindFirst(row.step); }, batch);
  } else if constexpr (kRule == PartRule::kTime) {
    KeepIf<Row>([this](const Row& row) { return IsIn(row.*schema::TableOf<Row>::kTime); }, batch);
  } else if constexpr (kRule == PartRule::kMarkers) {
    KeepMarkers(&batch->Get<Row>(), &batch->Get<schema::ConfigRow>());
  } else if constexpr (kRule == PartRule::kMemory) {
    KeepMemory(&batch->Get<Row>());
  } else if constexpr (kRule == PartRule::kSegments) {
    KeepSegments(&batch->Get<Row>());
  } else if constexpr (kRule == PartRule::kSpans) {
    KeepSpans(&batch->Get<Row>());
  } else if constexpr (kRule == PartRule::kBesideSpans) {
    KeepBesideSpans(&batch->Get<Row>());
  } else {
    static_assert(kRule == PartRule::kAll);
  }
}

// Below -1 it is a batch of an evaluation, between two steps.
bool PartFilter::IsOfSteps(const schema::OpRunRow& row) const {
  if (row.step >= kNoStep) return HasStep(row.step);
  return row.started_ns > first_end_ns_ && row.started_ns < last_start_ns_;
}

// Collectives have no times; one without its op run is in no figure.
bool PartFilter::IsOfSteps(const schema::CollectiveRow& row) const {
  return row.step < kNoStep || HasStep(row.step);
}

// What was changed before is how it was when this part began: said with every batch that has the
// configuration, as files tell it with each. Errors stay: they say that the run failed.
void PartFilter::KeepMarkers(std::vector<schema::MarkerRow>* markers,
                             std::vector<schema::ConfigRow>* config) {
  std::vector<schema::MarkerRow> kept;
  for (schema::MarkerRow& marker : *markers) {
    const bool is_checkpoint =
        marker.kind == Name(MarkerKind::kCheckpoint) && IsBehindFirst(marker.step);
    if (IsKnobChange(marker) && marker.time_ns < limits_.from_ns) {
      changed_[marker.key] = marker.new_value;
    } else if (IsIn(marker.time_ns)) {
      kept.push_back(std::move(marker));
    } else if (marker.kind == Name(MarkerKind::kError) || is_checkpoint) {
      marker.time_ns = std::clamp(marker.time_ns, limits_.from_ns, limits_.to_ns);
      kept.push_back(std::move(marker));
    }
  }
  *markers = std::move(kept);
  for (const auto& [key, value] : changed_) config->push_back({key, value});
}

void PartFilter::KeepMemory(std::vector<schema::MemoryEventRow>* rows) {
  std::vector<schema::MemoryEventRow> kept;
  for (schema::MemoryEventRow& row : *rows) {
    if (row.issued_ns >= limits_.to_ns) continue;
    if (row.executed_ns < limits_.from_ns && !begun_.contains(row.rank)) {
      held_.Add({row.rank, row.device, row.category, row.unit, row.bytes});
      continue;
    }
    if (begun_.insert(row.rank).second) held_.TakeRowsOf(row.rank, limits_.from_ns, &kept);
    row.issued_ns = std::max(row.issued_ns, limits_.from_ns);
    row.executed_ns = std::max(row.executed_ns, limits_.from_ns);
    kept.push_back(std::move(row));
  }
  *rows = std::move(kept);
}

store::RowBatch PartFilter::TakeHeld() {
  store::RowBatch batch;
  held_.TakeRows(limits_.from_ns, &batch.Get<schema::MemoryEventRow>());
  return batch;
}

store::RowBatch PartFilter::TakeRest() {
  store::RowBatch batch = TakeHeld();
  is_end_ = true;
  KeepRows<schema::GpuWorkRow>(&batch);
  KeepRows<schema::NcclOperationRow>(&batch);
  return batch;
}

void PartFilter::KeepSegments(std::vector<schema::MemorySegmentRow>* rows) const {
  std::erase_if(*rows, [this](const auto& row) { return row.time_ns > limits_.to_ns; });
  for (schema::MemorySegmentRow& row : *rows) row.time_ns = std::max(row.time_ns, limits_.from_ns);
}

void PartFilter::KeepSpans(std::vector<schema::SpanRow>* rows) {
  for (const schema::SpanRow& row : *rows) {
    int64_t& newest = newest_spans_[row.id.value() / store::kIdsPerFile];
    newest = std::max(newest, row.id.value());
    if (BeginsIn(row.start_ns)) spans_.insert(row.id);
  }
  std::erase_if(*rows, [this](const auto& row) { return !BeginsIn(row.start_ns); });
}

// Work whose span may not have come shall not be that of the whole run.
bool PartFilter::MayBeIn(const schema::GpuWorkRow& row) const {
  const bool has_launch = row.launch_start_ns > 0;
  return !has_launch ||
         (row.launch_start_ns >= earliest_launch_ns_ && row.launch_start_ns < limits_.to_ns);
}

template <typename Row>
void PartFilter::KeepBesideSpans(std::vector<Row>* rows) {
  auto& waiting = std::get<Waiting<Row>>(waiting_);
  for (Row& row : *rows) {
    if (MayBeIn(row)) waiting.emplace(row.id, std::move(row));
  }
  rows->clear();
  for (auto next = waiting.begin(); next != waiting.end();) {
    const int64_t file = next->first.value() / store::kIdsPerFile;
    const auto newest = newest_spans_.find(file);
    const bool has_come =
        is_end_ || (newest != newest_spans_.end() && next->first.value() <= newest->second);
    if (!has_come) {  // nor have those behind it, in this file
      next = waiting.lower_bound(schema::SpanId((file + 1) * store::kIdsPerFile));
      continue;
    }
    if (spans_.erase(next->first) > 0) rows->push_back(std::move(next->second));
    next = waiting.erase(next);
  }
}

}  // namespace shardscope::query
