// SizeBound: keeps a trace below record.max_bytes by removing its oldest segments
// (trace/store/writer.h, Note: Segments), and counts what went. Owner: the BatchWriter.
//
// The bound holds for everything that the trace has on disk at any moment. Finishing needs room for
// the copy beside the segments, with indexes 1.6 times as large, so the segments share 2/5 of the
// bound. Batches, logs and segments are made so small that one more of each still fits.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

#include "trace/base/trace_bytes.h"
#include "trace/record/memory_account.h"
#include "trace/record/thread_rings.h"
#include "trace/store/writer.h"

namespace shardscope::record {

inline constexpr size_t kMaxBatchRows = 10'000;

class SizeBound {
 public:
  // 0 = unbounded; else at least kLeastTraceBytes.
  explicit SizeBound(int64_t max_bytes) : max_bytes_(max_bytes), segments_(1) {}

  bool bounded() const { return max_bytes_ > 0; }
  size_t batch_rows() const;
  int64_t checkpoint_pages() const;

  // Every hot row that goes into the open batch. false: its step is gone already, the row was
  // counted and is not to be written.
  template <typename T>
  bool Admit(const T& row) {
    if (!bounded()) return true;
    return Admit(schema::RecordOf<T>::kIndex, schema::RecordOf<T>::StepOf(row)) && Follow(row);
  }
  // The open batch was committed, or was lost.
  void EndBatch(bool committed);

  // Between batches: starts and removes segments as needed. `last_memory_id` is the id of the last
  // memory event committed.
  Status Keep(schema::MemoryEventId last_memory_id, store::TraceWriter* writer);

  // Whether the rare rows alone leave no room: hot rows cannot be written any more.
  bool full() const { return full_; }
  // Rows that were removed to keep the bound.
  const HotCounts& removed() const { return removed_; }

 private:
  // Rows of one segment by step; kNoStep: rows outside steps.
  using Counts = std::map<int64_t, HotCounts>;
  static constexpr int64_t kNoStep = -1;

  bool Admit(size_t kind, int64_t step);
  bool Follow(const schema::MemoryEventRow& row);
  template <typename T>
  bool Follow(const T&) {
    return true;
  }

  int64_t LiveBytes() const { return max_bytes_ / 5 * 2; }
  Status StartSegment(schema::MemoryEventId last_memory_id, store::TraceWriter* writer);
  void CountOldest();
  Status WriteMeta(store::TraceWriter* writer);
  std::vector<schema::MemoryEventRow> Balance(schema::MemoryEventId last_id) const;

  const int64_t max_bytes_;
  std::deque<Counts> segments_;  // oldest first; of committed rows
  Counts batch_;
  int64_t dropped_through_step_ = kNoStep;
  HotCounts removed_ = {};
  HotCounts removed_in_meta_ = {};
  std::map<MemoryAccount, int64_t> balance_;
  int64_t last_memory_ns_ = 0;
  int64_t empty_segment_bytes_ = 0;  // what the newest segment had when it was started
  bool full_ = false;
};

}  // namespace shardscope::record
