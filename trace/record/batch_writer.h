// BatchWriter: what the recorder's writer thread does with the rows it drains. Owner and only user:
// that thread (before it starts and after it ended: the Recorder).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "trace/record/rare_rows.h"
#include "trace/record/thread_rings.h"
#include "trace/store/writer.h"

namespace shardscope::record {

inline constexpr size_t kMaxBatchRows = 10'000;

class BatchWriter {
 public:
  // `max_bytes`: once the file is that big, hot rows are counted instead of written; 0 = unbounded.
  BatchWriter(std::unique_ptr<store::TraceWriter> writer, int64_t max_bytes)
      : writer_(std::move(writer)), max_bytes_(max_bytes) {}

  // Commits up to kMaxBatchRows hot rows of the rings, after all rare rows that came before them.
  // *more says whether rows were left. If the commit fails, the batch's hot rows are lost and
  // counted; its rare rows come again with the next batch.
  Status WriteBatch(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more);

  // Rows lost because the file reached its bound, and rows of batches that could not be committed.
  const HotCounts& lost_to_bound() const { return lost_to_bound_; }
  const HotCounts& lost_to_errors() const { return lost_to_errors_; }

  store::TraceWriter& trace() { return *writer_; }

 private:
  template <typename T>
  Status WriteKind(const std::vector<ThreadRings*>& rings, size_t* budget, bool* more);
  Status WriteRareRows();
  Status WriteAllKinds(const std::vector<ThreadRings*>& rings, bool* more);
  Status InsertHot(const OpRecord& record);
  template <typename Row>
  Status InsertHot(const Row& row);

  std::unique_ptr<store::TraceWriter> writer_;
  const int64_t max_bytes_;
  bool over_bound_ = false;
  store::RowBatch rare_backlog_;                              // not committed yet
  std::array<int64_t, schema::kNumTables> last_hot_id_ = {};  // ids of rare rows are RareRows'
  HotCounts batch_rows_ = {};                                 // drained into the open batch
  HotCounts lost_to_bound_ = {};
  HotCounts lost_to_errors_ = {};
};

}  // namespace shardscope::record
