// Recorder: takes rows from many threads without blocking them and writes them to the run's live
// trace file.
//
// Owner: the process that trains (one Recorder per process). Threads: every method marked "any
// thread" pushes into the calling thread's own ring; one writer thread drains all rings and commits
// every 50 ms or 10,000 rows. A full ring drops the record and counts it; the count goes to table
// `capability`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "trace/base/status.h"
#include "trace/schema/rows.h"

namespace shardscope::record {

struct RecorderOptions {
  std::string run_folder;  // an existing folder; the file becomes trace-<host>-<pid>.live.db in it
  std::map<std::string, std::string> meta;    // extra rows of table meta
  std::map<std::string, std::string> config;  // every key with its value
  int64_t max_bytes = 0;                      // 0 = unbounded
  bool stop_on_error = false;     // record.on_error: stop the training, or go on and count
  size_t ring_records = 1 << 12;  // per thread and kind
  // Under which source of table capability lost rows are counted, but memory events. Who is not the
  // engine states its own sources; the engine's are engine, memory and nvtx.
  std::string source = "engine";
};

// One op execution, with its collective row (kind empty if it was none).
struct OpRecord {
  schema::OpRunRow run;              // id is assigned by the writer
  schema::CollectiveRow collective;  // op_run and id are assigned by the writer
};

// Work of a GPU: its interval on the track of its stream and what else is known of it.
struct GpuWorkRecord {
  schema::SpanRow span;
  schema::GpuWorkRow work;  // id is assigned by the writer, as that of the span
};

// What NCCL put on a stream, likewise.
struct NcclRecord {
  schema::SpanRow span;
  schema::NcclOperationRow operation;
};

class Recorder {
 public:
  // Creates the file, writes meta, config and the schema, starts the writer thread.
  static Result<std::unique_ptr<Recorder>> Open(const RecorderOptions& options);
  virtual ~Recorder() = default;

  // Rare rows; they may take a lock. Ids are returned at once and are final. Any thread.
  virtual int64_t AddTrack(schema::TrackRow row) = 0;
  virtual void AddGpuStream(schema::GpuStreamRow row) = 0;
  virtual void AddRank(schema::RankRow row) = 0;
  virtual int64_t AddString(std::string_view text) = 0;
  virtual int64_t AddSchedule(schema::ScheduleRow row) = 0;
  virtual void AddScheduleBound(schema::ScheduleBoundRow row) = 0;
  virtual int64_t AddPlanOp(schema::PlanOpRow row) = 0;
  virtual void AddPlanEdge(schema::PlanEdgeRow row) = 0;
  virtual void AddMarker(schema::MarkerRow row) = 0;
  virtual void AddCapability(schema::CapabilityRow row) = 0;
  virtual void AddGpuClock(schema::GpuClockRow row) = 0;
  virtual void AddOverheadStep(schema::OverheadStepRow row) = 0;
  virtual void AddPause(schema::PauseRow row) = 0;
  virtual void SetMeta(std::string_view key, std::string_view value) = 0;

  // Hot rows: never block, never allocate beyond the row's own strings. Any thread.
  virtual void Record(const OpRecord& record) = 0;
  virtual void Record(const schema::StepRow& row) = 0;
  virtual void Record(const schema::SpanRow& row) = 0;
  virtual void Record(const schema::MemoryEventRow& row) = 0;
  virtual void Record(const schema::CounterRow& row) = 0;
  virtual void Record(const GpuWorkRecord& record) = 0;
  virtual void Record(const NcclRecord& record) = 0;
  virtual void Record(const schema::EventEdgeRow& row) = 0;
  virtual void Record(const schema::MemorySegmentRow& row) = 0;
  virtual void Record(const schema::AllocationRow& row) = 0;

  // Whether recording is switched off (record.steps window): hot rows are ignored then,
  // without being counted as lost. But rows of spans, of what a GPU did and of NCCL come late and
  // are always taken: who makes them asks WasRecording().
  virtual void SetWindow(bool recording) = 0;
  // Whether what happened then is recorded. Any thread; may take a lock.
  virtual bool WasRecording(int64_t time_ns) const = 0;

  // Records lost so far, by source.
  virtual std::map<std::string, int64_t> Dropped() const = 0;

  // The first error of the writer (full disk, ...), or Ok.
  virtual Status WriterStatus() const = 0;

  // Commits everything pushed so far; for tests and at the end of a run.
  virtual Status Flush() = 0;

  // Stops the writer and finishes the file (state finished). Call once; the Recorder takes no rows
  // afterwards.
  virtual Status Finish() = 0;

  // Path of the live file, or after Finish() of the finished one.
  virtual std::string path() const = 0;
};

}  // namespace shardscope::record
