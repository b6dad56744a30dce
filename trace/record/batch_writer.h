// BatchWriter: what the recorder's writer thread does with the rows it drains. Owner and only user:
// that thread (before it starts and after it ended: the Recorder).
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trace/record/lost_memory.h"
#include "trace/record/rare_rows.h"
#include "trace/record/size_bound.h"
#include "trace/record/thread_rings.h"
#include "trace/store/writer.h"

namespace shardscope::record {

// Tells outside SQLite what the writer has committed, for tests that kill it.
//
// Off unless the environment variable SHARDSCOPE_COMMIT_COUNTER names an existing file of at least
// kBytes, which is mapped and outlives the process. It holds 64-bit integers of the machine's byte
// order: [0] batches committed, [1] batches of which the COMMIT was about to be called, and from
// [2] on hot records in all by kind (N = schema::kNumHotRecords): [2..] with the last batch of an
// even number, [2 + N..] of an odd number. So after a kill the trace has the rows of batch [0], or
// those of batch [1] (one more, or the same). Owner: the writer thread.
class CommitCounter {
 public:
  static constexpr size_t kBytes = 4096;

  CommitCounter();
  ~CommitCounter();
  CommitCounter(const CommitCounter&) = delete;
  CommitCounter& operator=(const CommitCounter&) = delete;

  // `rows`: hot rows committed so far, with those of the batch.
  void BeforeCommit(const HotCounts& rows);
  void AfterCommit();

 private:
  using Word = std::atomic<int64_t>;
  static_assert(Word::is_always_lock_free);  // as memory shared with other processes needs it

  Word* words_ = nullptr;
};

class BatchWriter {
 public:
  // `max_bytes`: of the whole trace (size_bound.h); 0 = unbounded.
  static Result<std::unique_ptr<BatchWriter>> Create(const std::string& folder, int64_t max_bytes);

  // Commits a batch of hot rows from the rings, after all rare rows that came before them.
  // *more: rows were left. If the commit fails, the batch's hot rows are lost and
  // counted; its rare rows come again with the next batch.
  Status WriteBatch(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more);

  // Where nothing more can be written: the rows that wait are lost to errors. The rare rows, which
  // say how many were, then find the room that was kept for them.
  void LoseRest(const std::vector<ThreadRings*>& rings);
  Status WriteLastRareRows(RareRows* rare);

  // Finishes the trace, also with the rare rows that could not be written.
  Status Finish(RareRows* rare);

  // Whether the file is still at its place; if not, all rows from now on are lost to errors.
  Status CheckFile();

  // Rows removed to keep the size bound (see table meta), rows for which it left no room, and
  // rows of batches that could not be committed.
  const HotCounts& removed() const { return bound_.removed(); }
  const HotCounts& lost_to_bound() const { return lost_to_bound_; }
  const HotCounts& lost_to_errors() const { return lost_to_errors_; }

  store::TraceWriter& trace() { return *writer_; }

 private:
  template <typename T>
  Status WriteKind(const std::vector<ThreadRings*>& rings, int64_t last_ns, Status status,
                   bool* more);
  int64_t LastTimeOfBatch(const std::vector<ThreadRings*>& rings) const;
  Status WriteRows(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more);
  Status WriteRareRows();
  Status WriteLostMemory();
  Status WriteAllKinds(const std::vector<ThreadRings*>& rings, Status status, bool* more);
  // Gives a hot row the next id of its table.
  template <typename Row>
  void Number(Row* row);
  template <typename Row>
  Status InsertNumbered(Row* row);
  template <typename T>
  Status InsertHot(const T& record);
  Status WriteTransaction(const std::vector<ThreadRings*>& rings, RareRows* rare, bool* more);

  explicit BatchWriter(int64_t max_bytes) : bound_(max_bytes) {}

  SizeBound bound_;
  LostMemory lost_memory_;
  std::unique_ptr<store::TraceWriter> writer_;
  CommitCounter counter_;
  Status gone_;                   // why no hot rows are written any more
  store::RowBatch rare_backlog_;  // not committed yet
  std::array<int64_t, schema::kNumTables> last_hot_id_ = {};  // ids of rare rows are RareRows'
  HotCounts batch_rows_ = {};                                 // drained into the open batch
  HotCounts committed_ = {};
  HotCounts lost_to_bound_ = {};
  HotCounts lost_to_errors_ = {};
};

}  // namespace shardscope::record
