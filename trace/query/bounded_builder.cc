#include "trace/query/bounded_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trace/query/sane.h"

namespace shardscope::query {
namespace {

constexpr int64_t kBytesPerRow = 50;
constexpr uint64_t kMostBuilders = uint64_t{1} << 20;
static_assert(kMostBuilders << kGenerationBits < kLoadingGeneration);

int64_t NumHotRows(const store::RowBatch& batch) {
  int64_t count = 0;
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    const store::AnyRows& rows = batch.At(table);
    if (rows.table().hot) count += static_cast<int64_t>(rows.size());
  }
  return count;
}

// Rows that are no event of a step, and what a GPU's own memory began with. Tables without ids come
// whole with each batch.
bool TellsWhatRowsMean(const store::Table& table) {
  const bool is_segment = table.index == store::kTable<schema::MemorySegmentRow>.index;
  return table.has_id && !table.derived && !table.sql_only && (!table.hot || is_segment);
}

// Rows of a step may come before its step row, and those of the next one with them.
constexpr int64_t kStepsAhead = 3;
// A rank that is further behind has ended.
constexpr int64_t kMostStepsBehind = 1000;

bool IsSane(const schema::StepRow& row) {
  return row.step >= 0 && IsStep(row.step) && SaneStretch(row.start_ns, row.end_ns);
}

// That a rank has finished last; -1: none.
int64_t LastStep(const RankRows& rank) { return rank.steps.empty() ? -1 : rank.steps.back().step; }

int64_t LastStep(const Snapshot& rows) {
  int64_t last = -1;
  for (const RankRows& rank : rows.ranks) last = std::max(last, LastStep(rank));
  return last;
}

// Of those that go on.
std::set<int64_t> RanksWithSteps(const Snapshot& rows) {
  const int64_t newest = LastStep(rows);
  std::set<int64_t> ranks;
  for (const RankRows& rank : rows.ranks) {
    const int64_t last = LastStep(rank);
    if (last >= 0 && last >= newest - kMostStepsBehind) ranks.insert(rank.rank);
  }
  return ranks;
}

}  // namespace

int64_t MemoryForLiveRows(int64_t num_rows) { return num_rows * kBytesPerRow; }

BoundedBuilder::BoundedBuilder(std::string run_folder, std::string name, int64_t memory_bytes)
    : run_folder_(std::move(run_folder)),
      name_(std::move(name)),
      most_rows_(memory_bytes / kBytesPerRow) {
  shown_.builder = NewBuilder();
}

std::unique_ptr<SnapshotBuilder> BoundedBuilder::NewBuilder() {
  auto builder = std::make_unique<SnapshotBuilder>(run_folder_, name_);
  num_builders_ = std::min(num_builders_ + 1, kMostBuilders);
  builder->SetGeneration((kMostBuilders - num_builders_) << kGenerationBits);
  return builder;
}

int64_t BoundedBuilder::NeededBytes() const {
  const auto num_ranks = static_cast<int64_t>(shown_.builder->rows().ranks.size());
  return MemoryForRun(0, num_ranks).by_ranks + MemoryForLiveRows(num_rows_);
}

void BoundedBuilder::AddTo(Part* part, store::RowBatch* batch) {
  if (part->filter) part->filter->Keep(batch);
  part->num_rows += NumHotRows(*batch);
  part->builder->Add(*batch);
}

void BoundedBuilder::Remember(const store::RowBatch& batch) {
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    if (TellsWhatRowsMean(batch.At(table).table())) batch.At(table).CopyTo(&known_.At(table));
  }
  num_rows_ += NumHotRows(batch);
}

void BoundedBuilder::Add(store::RowBatch batch, bool more) {
  if (!more) is_behind_ = false;
  Remember(batch);
  AddTo(&shown_, &batch);
  if (next_.filter) {
    AddTo(&next_, &batch);
  } else if (next_.builder != nullptr) {
    num_waiting_ += NumHotRows(batch);
    waiting_.push_back(std::move(batch));
    TryNext();
  } else if (!more && shown_.num_rows >= std::max(most_rows_ / 2, patience_rows_) &&
             LastStep(shown_.builder->rows()) >= 0) {
    BeginNext();
  }
  if (!next_.filter || shown_.num_rows + next_.num_rows < most_rows_) return;
  shown_ = std::exchange(next_, {});
}

void BoundedBuilder::BeginNext() {
  next_first_ = LastStep(shown_.builder->rows()) + kStepsAhead;
  next_.builder = NewBuilder();
  next_.builder->GoOnFrom(*shown_.builder);
  waiting_.clear();
  waiting_.push_back(RowsBefore());
  num_waiting_ = 0;
}

// What the rows that come refer to, and what memory holds: as events of the past.
store::RowBatch BoundedBuilder::RowsBefore() const {
  store::RowBatch batch;
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    known_.At(table).CopyTo(&batch.At(table));
  }
  const Snapshot& rows = shown_.builder->rows();
  for (const RankRows& rank : rows.ranks) {
    std::map<std::pair<MemoryCategory, uint64_t>, int64_t> held;
    for (const MemoryEvent& event : rank.memory) held[{event.category, event.unit}] += event.bytes;
    for (const auto& [what, bytes] : held) {
      schema::MemoryEventRow row;
      row.rank = rank.rank;
      row.issued_ns = row.executed_ns = rows.start_ns;
      row.bytes = bytes;
      row.category = Name(what.first);
      row.unit = rows.memory_units[what.second];
      row.plan_op = schema::PlanOpId::None();
      row.step = -1;
      batch.Get<schema::MemoryEventRow>().push_back(row);
    }
  }
  return batch;
}

RunPart BoundedBuilder::StepsFrom(int64_t first_step) const {
  RunPart part = shown_.steps;
  const Snapshot& rows = shown_.builder->rows();
  AddStepStarts(rows, &part);
  if (!shown_.filter) {
    part.start_ns = rows.start_ns;
    part.first_of_run = part.step_starts->empty() ? first_step : part.step_starts->front().step;
  }
  part.first_step = part.last_step = part.last_of_run = first_step;
  return part;
}

void BoundedBuilder::TryNext() {
  const std::set<int64_t> ranks = RanksWithSteps(shown_.builder->rows());
  std::vector<schema::StepRow> steps;
  std::set<int64_t> over;
  for (const store::RowBatch& batch : waiting_) {
    for (const schema::StepRow& row : batch.Get<schema::StepRow>()) {
      if (row.step != next_first_ || !IsSane(row)) continue;
      steps.push_back(row);
      over.insert(row.rank);
    }
  }
  if (over.empty() || !std::ranges::includes(over, ranks)) {
    // A step that does not end shall not hold rows twice.
    if (2 * num_waiting_ > shown_.num_rows) {
      next_ = {};
      waiting_.clear();
      patience_rows_ = 2 * shown_.num_rows;
    }
    return;
  }
  next_.steps = StepsFrom(next_first_);
  next_.filter.emplace(next_.steps, TimesOfPart(next_.steps, steps));
  for (store::RowBatch& batch : waiting_) AddTo(&next_, &batch);
  next_.builder->Add(next_.filter->TakeHeld());
  waiting_.clear();
  patience_rows_ = 0;
}

SnapshotPtr BoundedBuilder::Publish(store::SourceState state) {
  if (state != store::SourceState::kLive) {
    next_ = {};
    waiting_.clear();
    if (shown_.filter) shown_.builder->Add(shown_.filter->TakeRest());
  }
  if (shown_.filter) {
    RunPart* const part = &shown_.steps;
    const Snapshot& rows = shown_.builder->rows();
    part->last_step = part->last_of_run = std::max(LastStep(rows), part->first_step);
    part->needed_bytes = NeededBytes();
    part->end_ns = rows.end_ns;
    shown_.builder->SetPart(*part);
  }
  shown_.builder->SetBehind(is_behind_);
  return shown_.builder->Publish(state);
}

}  // namespace shardscope::query
