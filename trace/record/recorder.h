// Recorder: takes rows from many threads without blocking them and writes them to the run's live
// trace file.
//
// Owner: the process that trains (one Recorder per process). Threads: every method marked "any
// thread" pushes into the calling thread's own ring; one writer thread drains all rings and commits
// every 25 ms or 10,000 rows. A full ring drops the record and counts it; the count goes to table
// `capability`.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <variant>

#include "trace/base/status.h"
#include "trace/schema/capability_row.h"
#include "trace/schema/rows.h"

namespace shardscope::record {

struct RecorderOptions {
  std::string run_folder;  // an existing folder; the file becomes trace-<host>-<pid>.live.db in it
  std::map<std::string, std::string> meta;    // extra rows of table meta
  std::map<std::string, std::string> config;  // every key with its value
  int64_t max_bytes = 0;                      // 0 = unbounded
  size_t ring_records = 1 << 13;  // per thread and kind; at least twice kRowsBetweenRoom
  // Under which source of table capability lost rows are counted, of tables without one of their
  // own. Sources of other recorders are theirs to state; the engine's are engine, memory and nvtx.
  std::string source = "engine";
};

using schema::GpuWorkRecord;
using schema::NcclRecord;
using schema::OpRecord;

class Recorder {
 public:
  // Creates the file, writes meta, config and the schema, starts the writer thread.
  static Result<std::unique_ptr<Recorder>> Open(const RecorderOptions& options);
  virtual ~Recorder() = default;

  // Rare rows (schema::RareRows); they may take a lock. Returns the id at once, if the table has
  // any, and it is final. Any thread.
  template <typename Row>
  auto Add(Row row) {
    const int64_t id = AddRow(&row);
    if constexpr (requires { row.id; }) return decltype(row.id)(id);
  }
  // The id of the row of table `string` with this text; there is only one. Any thread.
  virtual schema::StringId AddString(std::string_view text) = 0;

  // Hot rows and pairs of them (schema::HotRecords; the writer assigns their ids): never block,
  // never allocate. Any thread.
  template <typename T>
  void Record(const T& record) {
    std::get<Taker<T>>(takers_)(this, record);
  }

  // Returns once at least half of each of the calling thread's rings is free, or the writer cannot
  // write; waits for it if it must. Called before a burst that nothing waits for and every
  // kRowsBetweenRoom rows of it, no row finds its ring full. Any thread.
  virtual void MakeRoom() = 0;
  static constexpr int64_t kRowsBetweenRoom = 256;

  // Switches recording on or off from now on (record.steps); it is on at first. While it is off hot
  // rows are ignored, without being counted as lost; but rows that come late (spans, what a GPU
  // did, ...: `late` in tables.py) are always taken: callers ask WasRecording(). Any thread.
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

 protected:
  template <typename Row>
  using RarePointer = Row*;
  using RareRow = schema::Each<std::variant, RarePointer, schema::RareRows>;
  // What takes each kind of record. This is the table of virtual functions that a list of types
  // cannot declare; one virtual function for all kinds, which would ask which one it got, makes a
  // call 4 ns longer (of 6).
  template <typename T>
  using Taker = void (*)(Recorder* self, const T& record);
  using Takers = schema::Each<std::tuple, Taker, schema::HotRecords>;

  explicit Recorder(const Takers& takers) : takers_(takers) {}

  // Those that call Derived::Take(record).
  template <typename Derived, typename... T>
  static Takers TakersOf(schema::TypeList<T...> /*records*/) {
    return {[](Recorder* self, const T& record) { static_cast<Derived*>(self)->Take(record); }...};
  }

 private:
  // The number of its id; 0 where the table has none. May move from the row.
  virtual int64_t AddRow(RareRow row) = 0;

  const Takers takers_;
};

}  // namespace shardscope::record
