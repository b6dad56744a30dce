// TraceWriter: the one connection that writes and checkpoints a live trace. Owner: the recorder's
// writer thread. Readers tail the file meanwhile (WAL).
//
// [Note: Segments]
// A trace of bounded size is a row of live files. Each is complete in itself: StartSegment() copies
// the rare rows (meta, plan, markers, ...) into the new one, so that older ones can be removed
// whole and nothing is ever deleted from a file. Hot rows go on counting their ids, so a reader
// that takes "id > last" from one segment after the other sees every row once. Memory events are
// sums over time: a segment opens with their balance so far, in rows that bear the ids of the last
// events before it. A reader that has those events skips the balance by the same rule; one that
// starts with this segment takes it. A step of which a part was removed is left out by readers and
// by the finisher: meta.dropped_through_step names the last such step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/schema/columns.h"
#include "trace/store/database.h"
#include "trace/store/row_io.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

// Keys of table meta about what was removed to keep the size bound; absent if nothing was. The last
// step of which rows went, and how many records of source engine and of source memory.
inline constexpr std::string_view kDroppedThroughStep = "dropped_through_step";
inline constexpr std::string_view kDroppedEngine = "dropped_engine";
inline constexpr std::string_view kDroppedMemory = "dropped_memory";
// Whether rows of a trace were removed.
Result<bool> WasBounded(Database* database);

// The finisher attaches all segments at once, and one more if the writer was killed between the
// start of a segment and the removal of the oldest; SQLite allows 10.
inline constexpr size_t kMaxSegments = 8;

// 4 KiB pages; the log is copied into the file when it has this many. The writer waits for the disk
// then, and nothing is committed: 2000 pages took it 70 to 100 ms in every second, which those who
// watch a busy run saw.
inline constexpr int64_t kPageBytes = 4096;
inline constexpr int64_t kCheckpointPages = 500;

// Makes an empty live trace of an empty database.
Status CreateLiveSchema(Database* database);

class TraceWriter {
 public:
  // Creates a new live trace in `folder`, which must exist, and takes its lock.
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& folder,
                                                     int64_t checkpoint_pages = kCheckpointPages);

  // Opens the files again if the program has closed them with all its descriptors (trace_file.h).
  Status Begin();
  Status Commit() { return database_.Execute("COMMIT"); }
  void Rollback() { (void)database_.Execute("ROLLBACK"); }

  template <typename Row>
  Status Insert(const Row& row) {
    return inserter_.Insert(row, &database_);
  }
  Status Insert(const AnyRows& rows, size_t index) {
    return inserter_.Insert(rows, index, &database_);
  }

  // Where the disk is full, there is room for a few rows afterwards.
  void ReleaseReserve() { lock_.ReleaseReserve(); }

  Status SetMeta(std::string_view key, std::string_view value);

  // Goes on in a new segment that opens with the balance of memory events. Not inside a
  // transaction. After an error the old segment goes on.
  Status StartSegment(const std::vector<schema::MemoryEventRow>& balance);
  // Removes the oldest segment; never the one that is written.
  void RemoveOldestSegment();
  size_t NumSegments() const { return segments_.size(); }

  // Bytes of all segments with their logs, and of the one that is written.
  int64_t SizeBytes() const;
  int64_t SegmentBytes() const { return DatabaseBytes(database_.path()); }

  // An error if the file that is written is no longer at its place: then what is written is lost,
  // and SQLite does not notice.
  Status CheckFile() const;

  // Publishes state `finishing`, then replaces the live file by the finished one. Nothing can be
  // written afterwards. `rest`: rare rows that could not be committed. The finished file has them;
  // the live one lacks them, so it keeps its state, and if it is left it is finished as `cut`.
  Status Finish(const RowBatch& rest = {});

  // Of a trace that could not be begun because of `why`: removes its files. Returns the reason,
  // with what helps where there is no room.
  Status Discard(const Status& why);

  const TraceFile& file() const { return file_; }

 private:
  TraceWriter(TraceFile file, TraceLock lock, int64_t checkpoint_pages);

  Status OpenSegment(int64_t segment);
  Status Reopen();

  const TraceFile file_;
  TraceLock lock_;
  const int64_t checkpoint_pages_;
  std::vector<int64_t> segments_;  // ascending; the last one is written
  Database database_;
  uint64_t inode_ = 0;    // of the file that is written
  RowInserter inserter_;  // into database_: ends before it
};

}  // namespace shardscope::store
