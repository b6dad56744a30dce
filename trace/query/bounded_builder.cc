#include "trace/query/bounded_builder.h"

#include <algorithm>
#include <map>
#include <utility>

#include "trace/query/sane.h"

namespace shardscope::query {
namespace {

constexpr int64_t kBytesPerRow = 100;
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

}  // namespace

int64_t MemoryForLiveRows(int64_t num_rows) { return num_rows * kBytesPerRow; }

BoundedBuilder::BoundedBuilder(std::string run_folder, std::string name, int64_t memory_bytes)
    : run_folder_(std::move(run_folder)), name_(std::move(name)), memory_bytes_(memory_bytes) {
  shown_.builder = NewBuilder();
}

std::unique_ptr<SnapshotBuilder> BoundedBuilder::NewBuilder() {
  auto builder = std::make_unique<SnapshotBuilder>(run_folder_, name_);
  num_builders_ = std::min(num_builders_ + 1, kMostBuilders);
  builder->SetGeneration((kMostBuilders - num_builders_) << kGenerationBits);
  return builder;
}

int64_t BoundedBuilder::BytesOfRanks() const {
  return MemoryForRun(0, static_cast<int64_t>(shown_.builder->rows().ranks.size())).by_ranks;
}

int64_t BoundedBuilder::MostRows() const {
  return std::max<int64_t>(memory_bytes_ - BytesOfRanks(), 0) / kBytesPerRow;
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
  const auto see = [this](int64_t step) {
    if (step < 0 || !IsStep(step)) return;
    first_step_ = std::min(first_step_, step);
    newest_step_ = std::max(newest_step_, step);
  };
  for (const schema::StepRow& row : batch.Get<schema::StepRow>()) {
    see(row.step);
    ranks_.insert(row.rank);
  }
  for (const schema::OpRunRow& row : batch.Get<schema::OpRunRow>()) see(row.step);
  for (const schema::CollectiveRow& row : batch.Get<schema::CollectiveRow>()) see(row.step);
  for (const schema::MemoryEventRow& row : batch.Get<schema::MemoryEventRow>()) see(row.step);
}

void BoundedBuilder::Add(store::RowBatch batch) {
  Remember(batch);
  AddTo(&shown_, &batch);
  if (next_.builder != nullptr) {
    AddTo(&next_, &batch);
  } else if (next_first_) {
    num_waiting_ += NumHotRows(batch);
    waiting_.push_back(std::move(batch));
    TryNext();
  } else if (shown_.num_rows >= std::max(MostRows() / 2, patience_rows_) &&
             newest_step_ >= first_step_) {
    BeginNext();
  }
  if (next_.builder == nullptr || shown_.num_rows + next_.num_rows < MostRows()) return;
  shown_ = std::exchange(next_, {});
}

// What comes from now on has all rows of that step: of the one after the newest, rows that tell no
// step may have come.
void BoundedBuilder::BeginNext() {
  next_first_ = newest_step_ + 2;
  waiting_.clear();
  waiting_.push_back(RowsBefore());
  num_waiting_ = 0;
}

// What the rows that come refer to, and what memory holds: as events of the past.
store::RowBatch BoundedBuilder::RowsBefore() {
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
  part.first_step = first_step;
  part.last_step = part.last_of_run = std::max(newest_step_, first_step);
  part.first_of_run = first_step_;
  part.needed_bytes = BytesOfRanks() + MemoryForLiveRows(num_rows_);
  if (!shown_.filter) part.start_ns = rows.start_ns;
  std::map<int32_t, int64_t> starts;
  for (const RankRows& rank : rows.ranks) {
    for (const Step& row : rank.steps) {
      const auto [at, is_new] = starts.emplace(row.step, row.start_ns);
      if (!is_new) at->second = std::min(at->second, row.start_ns);
    }
  }
  auto ascending = std::make_shared<std::vector<RunPart::StepStart>>();
  if (part.step_starts != nullptr) *ascending = *part.step_starts;
  const int64_t known = ascending->empty() ? INT64_MIN : ascending->back().step;
  for (const auto& [step, start_ns] : starts) {
    if (step > known) ascending->push_back({step, start_ns});
  }
  part.step_starts = std::move(ascending);
  return part;
}

void BoundedBuilder::TryNext() {
  std::vector<schema::StepRow> steps;
  std::set<int64_t> over;
  for (const store::RowBatch& batch : waiting_) {
    for (const schema::StepRow& row : batch.Get<schema::StepRow>()) {
      if (row.step != *next_first_) continue;
      steps.push_back(row);
      over.insert(row.rank);
    }
  }
  if (!std::ranges::includes(over, ranks_)) {
    // A step that does not end, or one rank that is long gone, shall not hold rows twice.
    if (2 * num_waiting_ > shown_.num_rows) {
      next_first_.reset();
      waiting_.clear();
      ranks_.clear();
      patience_rows_ = 2 * shown_.num_rows;
    }
    return;
  }
  next_.steps = StepsFrom(*next_first_);
  next_.filter.emplace(next_.steps, TimesOfPart(next_.steps, steps));
  next_.builder = NewBuilder();
  next_.builder->TakeIndices(*shown_.builder);  // figures of shown rows may still be looked at
  for (store::RowBatch& batch : waiting_) AddTo(&next_, &batch);
  next_first_.reset();
  waiting_.clear();
  patience_rows_ = 0;
}

SnapshotPtr BoundedBuilder::Publish(store::SourceState state) {
  if (state != store::SourceState::kLive) {
    next_ = {};
    next_first_.reset();
    waiting_.clear();
    if (shown_.filter) shown_.builder->Add(shown_.filter->TakeRest());
  }
  if (shown_.filter) {
    RunPart* const part = &shown_.steps;
    part->last_step = part->last_of_run = std::max(newest_step_, part->first_step);
    part->needed_bytes = BytesOfRanks() + MemoryForLiveRows(num_rows_);
    part->end_ns = shown_.builder->rows().end_ns;
    shown_.builder->SetPart(*part);
  }
  return shown_.builder->Publish(state);
}

}  // namespace shardscope::query
