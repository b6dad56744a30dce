// FinishedSource: the rows of one large finished trace file, as fast as two threads read them, and
// those of a few steps at once.
//
// A Source (source.h) reads all tables on one thread, each a part at a time. Here two threads read
// ahead, op runs and the rest, where the file has their rows packed (chunk_table.h) from there.
// Tables that only SQL asks for are left out: Snapshots have none.
//
// Used by one thread at a time, but for ReadDerived().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "trace/base/status.h"
#include "trace/store/chunk_table.h"
#include "trace/store/reader.h"

namespace shardscope::store {

// Of all steps of all ranks; those that no reader takes, in a damaged file, are left out.
struct StepBounds {
  int64_t first_step = 0;
  int64_t last_step = -1;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// What a picture shows of a row of memory_event. As the file has it: anything.
struct MemoryChange {
  int64_t rank = 0;
  int64_t issued_ns = 0;
  int64_t executed_ns = 0;
  int64_t bytes = 0;
  int64_t step = -1;
  std::string_view category;  // until visit() returns
};

// Steps, and the times of what is of none: memory events that took effect and were issued, and
// spans that began, in [from_ns, to_ns).
struct RowLimits {
  int64_t first_step = 0;
  int64_t last_step = 0;
  int64_t from_ns = 0;
  int64_t to_ns = 0;
  // All memory events of these times are between these ids.
  int64_t first_memory_event = INT64_MIN;
  int64_t last_memory_event = INT64_MAX;
};

class FinishedSource {
 public:
  static constexpr int64_t kLargeBytes = kLargeTraceBytes;

  // nullptr if the file is not one for this class: live, bounded in size, older than version 4 of
  // the schema, or smaller.
  static Result<std::unique_ptr<FinishedSource>> Open(const TraceFile& file,
                                                      int64_t least_bytes = kLargeBytes);
  // Of a file of any size, which may be without derived rows.
  static Result<std::unique_ptr<FinishedSource>> OpenFile(const std::string& path);
  ~FinishedSource();

  // What the rows take of the file: without what it has of them packed. An estimate in damaged
  // files.
  int64_t BytesOfRows();
  // The same of a finished file that is not open.
  static int64_t BytesOfRows(const TraceFile& file);

  bool cut() const { return cut_; }
  Result<StepBounds> Bounds();

  // All rows of the tables that stay small: meta to plan_edge, and marker.
  Status ReadSmallTables(RowBatch* batch);

  Result<bool> HasGpuRows();
  Result<bool> HasSpans();
  Result<bool> HasDerived();
  Result<int64_t> NumOpRuns();
  Result<int64_t> NumRanks();

  // All rows of derived tables, some at a time, which `take` removes, or those until `stopping`.
  // None: this trace has none. Has a connection of its own, so that any thread may call it beside
  // the one that reads.
  Status ReadDerived(const std::function<void(RowBatch*)>& take,
                     const std::atomic<bool>* stopping = nullptr);

  // The next memory events, in commit order; empty at the end.
  Result<RowBatch> ReadMemory();

  // Calls `visit` for every memory event, in commit order: a fraction of ReadMemory()'s time.
  Status ForEachMemoryChange(const std::function<void(const MemoryChange&)>& visit);

  // All counters.
  Status ReadCounters(RowBatch* batch);

  // The last step of a part of the trace that begins with `first_step` and has some 100,000 rows.
  Result<int64_t> LastStepOfPart(int64_t first_step);

  // Step rows, op runs and collectives of the steps [first_step, last_step].
  Status ReadSteps(int64_t first_step, int64_t last_step, RowBatch* batch);

  // Of memory events, of the 100,000 that were committed first, and of the spans of each track the
  // one that began first.
  Status ReadEarliest(RowBatch* batch);

  // Step rows alone, of the steps [first_step, last_step].
  Status ReadStepRows(int64_t first_step, int64_t last_step, RowBatch* batch);

  // Spans that begin in [from_ns, to_ns], and the rows of kernels and copies among them. false, and
  // nothing, if they are more than `most_rows`.
  Result<bool> ReadSpans(int64_t from_ns, int64_t to_ns, size_t most_rows, RowBatch* batch);

  // From now on ReadNext() leaves out most of what is not within; not all: rows of steps mix.
  // Before the first ReadNext().
  void Limit(const RowLimits& limits) { limits_ = limits; }
  // What the memory events that took effect before sum up to, as one row a rank, device, category
  // and unit. Looks at all of them, on two threads, until `stopping`; those within are found at
  // once afterwards.
  Status ReadMemoryHeld(const std::atomic<bool>& stopping, RowBatch* batch);

  // The next part of the large tables, empty at the end, in place of what is there, whose memory
  // the part after that takes. Reads ahead on two threads.
  Status ReadNext(RowBatch* batch);

 private:
  class Memory;
  class OpRuns;
  class Others;

  FinishedSource() = default;
  // Of one with a range of ids in step_range.
  Status ReadRowsOf(const Table& table, int64_t first_step, int64_t last_step, RowBatch* batch);
  Result<std::vector<schema::TrackId>> TracksOfSpans();
  // What was read before is room for what is read.
  void ReadAhead(RowBatch room);
  Result<bool> AreFewSpans(const std::vector<schema::TrackId>& tracks, int64_t from_ns,
                           int64_t to_ns, size_t most_rows);

  TraceReader reader_;  // of the calling thread
  bool cut_ = false;
  std::optional<RowLimits> limits_;
  std::unique_ptr<Memory> memory_;
  std::unique_ptr<OpRuns> op_runs_;
  std::unique_ptr<Others> others_;
  std::future<Result<RowBatch>> next_op_runs_;  // started; last: they use the two above
  std::future<Result<RowBatch>> next_others_;
};

}  // namespace shardscope::store
