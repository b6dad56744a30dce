// Derived rows of a file into a Snapshot: checked as all rows, and in the order that they are
// searched in.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "trace/query/derived.h"
#include "trace/query/sane.h"
#include "trace/query/snapshot_builder.h"

namespace shardscope::query {
namespace {

bool IsSane(const schema::StepPartRow& row) {
  return IsStep(row.step) && SanePart(row.compute_ns) && SanePart(row.communication_ns) &&
         SanePart(row.copy_ns) && SanePart(row.overlap_ns) && SanePart(row.exposed_copy_ns) &&
         SanePart(row.slot_wait_ns) &&
         row.overlap_ns <= std::min(row.compute_ns, row.communication_ns);
}

bool IsSane(const schema::StallRow& row) {
  return IsStep(row.step) && SaneTime(row.start_ns) && SaneTime(row.end_ns) &&
         row.start_ns <= row.end_ns;
}

bool IsSane(const schema::SlowCollectiveRow& row) {
  return IsStep(row.step) && SaneTime(row.started_ns) && SaneTime(row.ended_ns) &&
         row.started_ns <= row.ended_ns && SaneTime(row.last_arrival_ns) &&
         FitsInt32(row.last_rank);
}

bool IsSane(const schema::MemoryPeakRow& row) {
  return SaneBytes(row.peak_bytes) && SaneTime(row.peak_ns) && SaneBytes(row.at_total_peak_bytes);
}

// Rows of equal keys keep their order.
template <typename Row, typename Key>
void SortBy(Key key, std::vector<Row>* rows) {
  const auto before = [&key](const Row& a, const Row& b) { return key(a) < key(b); };
  if (!std::is_sorted(rows->begin(), rows->end(), before)) {
    std::stable_sort(rows->begin(), rows->end(), before);
  }
}

}  // namespace

void SnapshotBuilder::AddDerived(store::RowBatch&& batch, int64_t num_op_runs) {
  const auto has_rank = [this](int64_t rank) {
    const std::vector<RankRows>& ranks = current_.ranks;
    const auto place =
        std::lower_bound(ranks.begin(), ranks.end(), rank,
                         [](const RankRows& rows, int64_t wanted) { return rows.rank < wanted; });
    return place != ranks.end() && place->rank == rank;
  };
  const auto take = [&]<typename Row>(std::vector<Row>* rows) {
    *rows = std::move(batch.Get<Row>());
    const size_t refused = std::erase_if(
        *rows, [&has_rank](const Row& row) { return !has_rank(row.rank) || !IsSane(row); });
    refused_ += static_cast<int64_t>(refused);
  };
  auto derived = std::make_shared<DerivedRows>();
  derived->num_op_runs = num_op_runs;
  take(&derived->step_parts);
  take(&derived->stalls);
  take(&derived->slow_collectives);
  take(&derived->memory_peaks);
  const auto step_and_rank = [](const schema::StepPartRow& row) {
    return std::pair(row.step, row.rank);
  };
  SortBy(step_and_rank, &derived->step_parts);
  SortBy([](const schema::StallRow& row) { return row.step; }, &derived->stalls);
  SortBy([](const schema::SlowCollectiveRow& row) { return row.step; }, &derived->slow_collectives);
  SortBy([](const schema::MemoryPeakRow& row) { return row.rank; }, &derived->memory_peaks);
  // A rank's step is counted once.
  std::vector<schema::StepPartRow>& parts = derived->step_parts;
  const auto twice = std::unique(parts.begin(), parts.end(),
                                 [&](const schema::StepPartRow& a, const schema::StepPartRow& b) {
                                   return step_and_rank(a) == step_and_rank(b);
                                 });
  refused_ += parts.end() - twice;
  parts.erase(twice, parts.end());
  current_.derived = std::move(derived);
}

}  // namespace shardscope::query
