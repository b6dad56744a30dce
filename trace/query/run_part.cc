#include "trace/query/run_part.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "trace/query/rows.h"
#include "trace/query/sane.h"

namespace shardscope::query {
namespace {

// Most is taken by op runs, once as rows and once more in the app's index.
constexpr double kRowsPerFileByte = 1.0;
constexpr double kMemoryPerFileByte = 1.4;

constexpr int64_t kNoStep = -1;

template <typename Row, typename IsKept>
void KeepIf(const IsKept& is_kept, store::RowBatch* batch) {
  std::erase_if(batch->Get<Row>(), [&is_kept](const Row& row) { return !is_kept(row); });
}

}  // namespace

int64_t MemoryForRows(int64_t file_bytes) {
  return static_cast<int64_t>(kRowsPerFileByte * static_cast<double>(file_bytes));
}

int64_t MemoryForRun(int64_t file_bytes) {
  return static_cast<int64_t>(kMemoryPerFileByte * static_cast<double>(file_bytes));
}

std::optional<RunPart> PartThatFits(int64_t first_of_run, int64_t last_of_run, int64_t around,
                                    int64_t needed_bytes, int64_t memory_bytes) {
  if (needed_bytes <= memory_bytes || last_of_run <= first_of_run) return std::nullopt;
  const int64_t all = last_of_run - first_of_run + 1;
  const double share =
      static_cast<double>(memory_bytes) / static_cast<double>(needed_bytes) * 2 / 3;
  const int64_t steps =
      std::clamp<int64_t>(static_cast<int64_t>(static_cast<double>(all) * share), 1, all - 1);
  RunPart part;
  part.first_of_run = first_of_run;
  part.last_of_run = last_of_run;
  part.needed_bytes = needed_bytes;
  part.first_step = std::clamp(around - steps / 2, first_of_run, last_of_run - steps + 1);
  part.last_step = part.first_step + steps - 1;
  return part;
}

PartFilter::PartFilter(const RunPart& part, int64_t from_ns, int64_t to_ns)
    : first_step_(part.first_step), last_step_(part.last_step), from_ns_(from_ns), to_ns_(to_ns) {
  if (part.first_step == part.first_of_run) {
    first_step_ = kNoStep;
    from_ns_ = INT64_MIN;
  }
  if (part.last_step == part.last_of_run) last_step_ = to_ns_ = INT64_MAX;
}

void PartFilter::Keep(store::RowBatch* batch) {
  const auto of_step = [this](const auto& row) {
    return row.step >= first_step_ && row.step <= last_step_;
  };
  KeepIf<schema::StepRow>(of_step, batch);
  // Below -1 it is a batch of an evaluation, between two steps. Collectives have no times; one
  // without its op run is in no figure.
  KeepIf<schema::OpRunRow>(
      [&](const schema::OpRunRow& row) {
        return row.step < kNoStep ? BeginsIn(row.started_ns) : of_step(row);
      },
      batch);
  KeepIf<schema::CollectiveRow>(
      [&](const schema::CollectiveRow& row) { return row.step < kNoStep || of_step(row); }, batch);
  const auto starts_in = [this](const auto& row) { return BeginsIn(row.start_ns); };
  KeepIf<schema::PauseRow>(starts_in, batch);
  KeepIf<schema::CheckpointRow>(starts_in, batch);
  KeepIf<schema::EvaluationRow>(starts_in, batch);
  KeepIf<schema::CounterRow>([this](const auto& row) { return IsIn(row.time_ns); }, batch);
  KeepIf<schema::EventEdgeRow>([this](const auto& row) { return IsIn(row.waited_ns); }, batch);
  KeepChanges(batch);
  KeepMemory(batch);
  KeepSegments(batch);
  KeepSpans(batch);
}

// What was changed before is how it was when this part began. Errors stay: they say that the run
// failed.
void PartFilter::KeepChanges(store::RowBatch* batch) {
  std::vector<schema::MarkerRow> kept;
  for (schema::MarkerRow& marker : batch->Get<schema::MarkerRow>()) {
    if (IsKnobChange(marker) && marker.time_ns < from_ns_) {
      batch->Get<schema::ConfigRow>().push_back({marker.key, marker.new_value});
    } else if (IsIn(marker.time_ns)) {
      kept.push_back(std::move(marker));
    } else if (marker.kind == "error") {
      marker.time_ns = std::clamp(marker.time_ns, from_ns_, to_ns_);
      kept.push_back(std::move(marker));
    }
  }
  batch->Get<schema::MarkerRow>() = std::move(kept);
}

void PartFilter::KeepMemory(store::RowBatch* batch) {
  std::vector<schema::MemoryEventRow> kept;
  for (schema::MemoryEventRow& row : batch->Get<schema::MemoryEventRow>()) {
    if (row.issued_ns >= to_ns_) continue;
    const bool is_before = row.executed_ns < from_ns_;
    Rank& rank = ranks_[row.rank];
    if (is_before && !rank.has_begun) {
      // A damaged row is refused later, and shall not spoil the sums.
      if (SaneCount(row.bytes)) rank.held[{row.device, row.category, row.unit}] += row.bytes;
      continue;
    }
    if (!rank.has_begun) TakeHeldOf(row.rank, &rank, &kept);
    row.issued_ns = std::max(row.issued_ns, from_ns_);
    row.executed_ns = std::max(row.executed_ns, from_ns_);
    kept.push_back(std::move(row));
  }
  batch->Get<schema::MemoryEventRow>() = std::move(kept);
}

void PartFilter::TakeHeldOf(int64_t number, Rank* rank,
                            std::vector<schema::MemoryEventRow>* rows) const {
  rank->has_begun = true;
  for (const auto& [key, bytes] : rank->held) {
    if (bytes == 0) continue;
    schema::MemoryEventRow row;
    row.rank = number;
    row.issued_ns = row.executed_ns = from_ns_;
    row.bytes = bytes;
    row.device = key.device;
    row.category = key.category;
    row.unit = key.unit;
    row.plan_op = schema::PlanOpId::None();
    row.step = kNoStep;
    rows->push_back(std::move(row));
  }
  rank->held.clear();
}

store::RowBatch PartFilter::TakeHeld() {
  store::RowBatch batch;
  for (auto& [number, rank] : ranks_) {
    if (!rank.has_begun) TakeHeldOf(number, &rank, &batch.Get<schema::MemoryEventRow>());
  }
  return batch;
}

void PartFilter::KeepSegments(store::RowBatch* batch) {
  KeepIf<schema::MemorySegmentRow>([this](const auto& row) { return row.time_ns <= to_ns_; },
                                   batch);
  for (schema::MemorySegmentRow& row : batch->Get<schema::MemorySegmentRow>()) {
    row.time_ns = std::max(row.time_ns, from_ns_);
  }
}

// A kernel and its span come as two rows with one id, in either order.
void PartFilter::KeepSpans(store::RowBatch* batch) {
  for (const schema::SpanRow& row : batch->Get<schema::SpanRow>()) {
    newest_span_ = std::max(newest_span_, row.id.value());
    if (BeginsIn(row.start_ns)) spans_.insert(row.id);
  }
  KeepIf<schema::SpanRow>([this](const auto& row) { return BeginsIn(row.start_ns); }, batch);
  const auto has_span = [this](const auto& row) {
    return spans_.erase(row.id) > 0 || row.id.value() > newest_span_;
  };
  KeepIf<schema::GpuWorkRow>(has_span, batch);
  KeepIf<schema::NcclOperationRow>(has_span, batch);
}

}  // namespace shardscope::query
