#include "trace/record/size_bound.h"

#include <algorithm>
#include <string>

#include "trace/base/trace_keys.h"

namespace shardscope::record {
namespace {

// Shares of what the segments may take together: room for growth between two looks at the size,
// one segment, one batch, and the log.
constexpr int64_t kGrowthShare = 8;
constexpr int64_t kSegmentShare = 8;
constexpr int64_t kBatchShare = 16;
constexpr int64_t kLogShare = 32;
constexpr int64_t kMaxRowBytes = 300;  // op run with collective, as text columns at their longest
constexpr int64_t kMinLogPages = 16;
constexpr int64_t kMinBatchRows = 100;

}  // namespace

size_t SizeBound::batch_rows() const {
  if (!bounded()) return kMaxBatchRows;
  return static_cast<size_t>(std::clamp(LiveBytes() / kBatchShare / kMaxRowBytes, kMinBatchRows,
                                        static_cast<int64_t>(kMaxBatchRows)));
}

int64_t SizeBound::checkpoint_pages() const {
  if (!bounded()) return store::kCheckpointPages;
  return std::clamp(LiveBytes() / kLogShare / store::kPageBytes, kMinLogPages,
                    store::kCheckpointPages);
}

bool SizeBound::Admit(size_t kind, int64_t step) {
  if (step > kNoStep && step <= dropped_through_step_) {
    ++removed_[kind];
    return false;
  }
  ++batch_[step][kind];
  return true;
}

// Also events of batches that are lost later: what they allocated or freed, they did.
bool SizeBound::Follow(const schema::MemoryEventRow& row) {
  const auto account = balance_.try_emplace(MemoryAccount::Of(row), 0).first;
  account->second += row.bytes;
  if (account->second == 0) balance_.erase(account);
  last_memory_ns_ = std::max(last_memory_ns_, row.executed_ns);
  return true;
}

void SizeBound::EndBatch(bool committed) {
  if (committed) {
    for (const auto& [step, counts] : batch_) {
      HotCounts& total = segments_.back()[step];
      for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) total[kind] += counts[kind];
    }
  }
  batch_.clear();
}

std::vector<schema::MemoryEventRow> SizeBound::Balance(schema::MemoryEventId last_id) const {
  std::vector<schema::MemoryEventRow> rows;
  int64_t id = last_id.value() - static_cast<int64_t>(balance_.size());
  for (const auto& [account, bytes] : balance_) {
    rows.push_back(account.Event(last_memory_ns_, last_memory_ns_, bytes));
    rows.back().id = schema::MemoryEventId(++id);
  }
  return rows;
}

Status SizeBound::StartSegment(schema::MemoryEventId last_memory_id, store::TraceWriter* writer) {
  SHARDSCOPE_RETURN_IF_ERROR(writer->StartSegment(Balance(last_memory_id)));
  segments_.emplace_back();
  empty_segment_bytes_ = writer->SegmentBytes();
  return Status::Ok();
}

// A step of which a part goes, goes whole: what the younger segments have of it counts as removed.
void SizeBound::CountOldest() {
  const Counts oldest = std::move(segments_.front());
  segments_.pop_front();
  const auto remove = [this](const HotCounts& counts) {
    for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) removed_[kind] += counts[kind];
  };
  for (const auto& [step, counts] : oldest) remove(counts);
  if (oldest.empty()) return;
  dropped_through_step_ = std::max(dropped_through_step_, oldest.rbegin()->first);
  for (Counts& segment : segments_) {
    const auto first = segment.upper_bound(kNoStep);
    const auto last = segment.upper_bound(dropped_through_step_);
    for (auto step = first; step != last; ++step) remove(step->second);
    segment.erase(first, last);
  }
}

Status SizeBound::WriteMeta(store::TraceWriter* writer) {
  if (removed_ == removed_in_meta_) return Status::Ok();
  int64_t memory = 0;
  int64_t others = 0;
  for (size_t kind = 0; kind < schema::kNumHotRecords; ++kind) {
    (schema::kSourceOfRecord[kind] == trace_keys::kMemorySource ? memory : others) +=
        removed_[kind];
  }
  SHARDSCOPE_RETURN_IF_ERROR(writer->Begin());
  Status status =
      writer->SetMeta(store::kDroppedThroughStep, std::to_string(dropped_through_step_));
  if (status.ok()) status = writer->SetMeta(store::kDroppedEngine, std::to_string(others));
  if (status.ok()) status = writer->SetMeta(store::kDroppedMemory, std::to_string(memory));
  if (status.ok()) status = writer->Commit();
  if (!status.ok()) {
    writer->Rollback();
    return status;
  }
  removed_in_meta_ = removed_;
  return Status::Ok();
}

Status SizeBound::Keep(schema::MemoryEventId last_memory_id, store::TraceWriter* writer) {
  if (!bounded()) return Status::Ok();
  const int64_t segment_bytes = std::max(LiveBytes() / kSegmentShare, 2 * empty_segment_bytes_);
  Status status;
  if (writer->SegmentBytes() >= segment_bytes) status = StartSegment(last_memory_id, writer);
  const int64_t limit = LiveBytes() - LiveBytes() / kGrowthShare;
  while (writer->NumSegments() > 1 &&
         (writer->NumSegments() > store::kMaxSegments || writer->SizeBytes() >= limit)) {
    CountOldest();
    // Said before it is done: a reader that misses rows finds why.
    const Status said = WriteMeta(writer);
    if (status.ok()) status = said;
    writer->RemoveOldestSegment();
  }
  full_ = writer->SizeBytes() >= limit;
  const Status said = WriteMeta(writer);
  return status.ok() ? said : status;
}

}  // namespace shardscope::record
