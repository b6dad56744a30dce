#include "trace/query/derived_maker.h"

#include <algorithm>
#include <utility>

#include "trace/query/sane.h"

namespace shardscope::query {
namespace {

bool IsSane(const schema::StepPartRow& row) {
  return IsStep(row.step) && SanePart(row.compute_ns) && SanePart(row.communication_ns) &&
         SanePart(row.copy_ns) && SanePart(row.overlap_ns) && SanePart(row.exposed_copy_ns) &&
         SanePart(row.slot_wait_ns) &&
         row.overlap_ns <= std::min(row.compute_ns, row.communication_ns);
}

bool IsSane(const schema::StallRow& row) {
  return IsStep(row.step) && SaneStretch(row.start_ns, row.end_ns);
}

bool IsSane(const schema::SlowCollectiveRow& row) {
  return IsStep(row.step) && SaneStretch(row.started_ns, row.ended_ns) &&
         SaneTime(row.last_arrival_ns) && FitsInt32(row.last_rank);
}

bool IsSane(const schema::MemoryPeakRow& row) {
  return SaneBytes(row.peak_bytes) && SaneTime(row.peak_ns) && SaneBytes(row.at_total_peak_bytes);
}

bool IsSane(const schema::FrontPartRow& row) {
  return IsStep(row.step) && SanePart(row.front_ns) && SanePart(row.delay_ns) &&
         row.delay_ns <= row.front_ns;
}

bool IsSane(const schema::PathPartRow& row) { return IsStep(row.step) && SanePart(row.path_ns); }

// Rows of equal keys keep their order.
template <typename Row, typename Key>
void SortBy(Key key, std::vector<Row>* rows) {
  const auto before = [&key](const Row& a, const Row& b) { return key(a) < key(b); };
  if (!std::is_sorted(rows->begin(), rows->end(), before)) {
    std::stable_sort(rows->begin(), rows->end(), before);
  }
}

}  // namespace

DerivedMaker::DerivedMaker(std::vector<int32_t> ranks) : ranks_(std::move(ranks)) {}

template <typename Row>
bool DerivedMaker::IsToKeep(const Row& row) const {
  return std::binary_search(ranks_.begin(), ranks_.end(), row.rank) && IsSane(row);
}

template <typename Row>
void DerivedMaker::Take(store::RowBatch* batch, std::vector<Row>* rows) {
  for (Row& row : batch->Get<Row>()) {
    if (IsToKeep(row)) {
      rows->push_back(std::move(row));
    } else {
      ++num_refused_;
    }
  }
  batch->Get<Row>().clear();
}

void DerivedMaker::Add(store::RowBatch* batch) {
  Take(batch, &rows_->step_parts);
  std::vector<schema::StallRow> stalls;
  Take(batch, &stalls);
  for (const schema::StallRow& row : stalls) rows_->stalls.Add(row);
  Take(batch, &rows_->slow_collectives);
  Take(batch, &rows_->memory_peaks);
  Take(batch, &rows_->front_parts);
  Take(batch, &rows_->path_parts);
}

Derived DerivedMaker::Make() {
  if (rows_->step_parts.empty()) return {nullptr, num_refused_};
  DerivedRows& rows = *rows_;
  const auto step_and_rank = [](const schema::StepPartRow& row) {
    return std::pair(row.step, row.rank);
  };
  SortBy(step_and_rank, &rows.step_parts);
  rows.stalls.Finish();
  SortBy([](const schema::SlowCollectiveRow& row) { return row.step; }, &rows.slow_collectives);
  SortBy([](const schema::MemoryPeakRow& row) { return row.rank; }, &rows.memory_peaks);
  SortBy([](const schema::FrontPartRow& row) { return row.step; }, &rows.front_parts);
  SortBy([](const schema::PathPartRow& row) { return row.step; }, &rows.path_parts);
  // A rank's step is counted once.
  std::vector<schema::StepPartRow>& parts = rows.step_parts;
  const auto twice = std::unique(parts.begin(), parts.end(),
                                 [&](const schema::StepPartRow& a, const schema::StepPartRow& b) {
                                   return step_and_rank(a) == step_and_rank(b);
                                 });
  num_refused_ += parts.end() - twice;
  parts.erase(twice, parts.end());
  // Kept as long as the run is open.
  parts.shrink_to_fit();
  rows.slow_collectives.shrink_to_fit();
  rows.memory_peaks.shrink_to_fit();
  rows.front_parts.shrink_to_fit();
  rows.path_parts.shrink_to_fit();
  return {std::move(rows_), num_refused_};
}

}  // namespace shardscope::query
