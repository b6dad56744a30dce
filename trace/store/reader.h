// TraceReader: opens one untrusted trace file. Used by one thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/row_batch.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

class TraceReader {
 public:
  // Read-only. Checks, before anything is queried: that it is a SQLite file of ours, of a schema
  // this program reads, with exactly the expected tables and indexes, and no triggers but those of
  // chunk_table.h. The views are replaced by this program's own (temporary) ones.
  static Result<TraceReader> Open(const std::string& path);
  static Result<TraceReader> OpenSegment(const TraceFile& file, int64_t segment);
  // The finished file of a trace, or else its oldest live segment.
  static Result<TraceReader> OpenNewest(const TraceFile& file);

  bool live() const { return segment_ > 0; }
  // Number of the live segment; 0: the finished file.
  int64_t segment() const { return segment_; }

  // Appends at most `limit` rows with id > after, ascending. Returns how many.
  Result<size_t> ReadAfter(int64_t after, size_t limit, AnyRows* rows);
  // Appends all rows of a table.
  Result<size_t> ReadAll(AnyRows* rows);

  // One of words::TraceState, as the file gives it.
  Result<std::string> State();

  Database& database() { return database_; }
  Database TakeDatabase() && { return std::move(database_); }

 private:
  Result<size_t> Drain(Statement* select, int64_t after, AnyRows* rows);
  bool FileHas(size_t bytes);

  Database database_;
  size_t bytes_read_ = 0;  // of rows with ids, each of which is read once
  size_t file_bytes_ = 0;  // when it was last asked
  int64_t segment_ = 0;
};

// What a row takes of its file. Pages of a damaged one may point at one another, so that rows come
// without end: of a table with more than the file can hold it is said that it repeats itself.
inline constexpr size_t kLeastRowBytes = 4;
Status RepeatsItself(const std::string& path, const char* table);

}  // namespace shardscope::store
