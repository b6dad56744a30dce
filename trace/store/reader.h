// TraceReader: opens one untrusted trace file. Used by one thread at a time.
#pragma once

#include <string>
#include <utility>

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/row_io.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

class TraceReader {
 public:
  // Read-only. Checks, before anything is queried: that it is a SQLite file of ours, of a schema
  // this program knows, with exactly the expected tables and indexes and no trigger. The views are
  // replaced by this program's own (temporary) ones.
  static Result<TraceReader> Open(const std::string& path);
  static Result<TraceReader> OpenSegment(const TraceFile& file, int64_t segment);
  // The finished file of a trace, or else its oldest live segment.
  static Result<TraceReader> OpenNewest(const TraceFile& file);

  bool live() const { return segment_ > 0; }
  // Number of the live segment; 0: the finished file.
  int64_t segment() const { return segment_; }

  // Calls visit(Row&&) for at most `limit` rows with id > after, ascending. Returns how many.
  template <typename Row, typename Visit>
  Result<size_t> ReadAfter(decltype(Row::id) after, size_t limit, Visit&& visit) {
    SHARDSCOPE_ASSIGN_OR_RETURN(Statement select,
                                database_.Prepare(std::string(schema::TableOf<Row>::kSelect) +
                                                  " WHERE id > ? ORDER BY id LIMIT ?"));
    select.Bind(1, after.value());
    select.Bind(2, static_cast<int64_t>(limit));
    return Drain<Row>(&select, after.value(), std::forward<Visit>(visit));
  }

  // All rows of a table.
  template <typename Row, typename Visit>
  Result<size_t> ReadAll(Visit&& visit) {
    SHARDSCOPE_ASSIGN_OR_RETURN(Statement select, database_.Prepare(schema::TableOf<Row>::kSelect));
    return Drain<Row>(&select, -1, std::forward<Visit>(visit));
  }

  Database& database() { return database_; }
  Database TakeDatabase() && { return std::move(database_); }

 private:
  // Pages of a damaged file may point at one another: then rows come again and again, or share
  // their text, and a small file is endless or larger than memory. Both are noticed here.
  template <typename Row, typename Visit>
  Result<size_t> Drain(Statement* select, int64_t after, Visit&& visit) {
    constexpr bool kHasId = schema::TableOf<Row>::kHasId;
    size_t count = 0;
    size_t bytes = kHasId ? bytes_read_ : 0;
    const size_t before = bytes;
    while (true) {
      const Result<bool> more = select->Step();
      if (!more.ok()) return Unreadable(more.status());
      if (!*more) break;
      Row row = ReadRow<Row>(*select);
      if constexpr (kHasId) {
        if (row.id.value() <= after) return Repeats(schema::TableOf<Row>::kName);
        after = row.id.value();
      }
      ++count;
      bytes = before + count * kLeastRowBytes + select->text_bytes();
      if (bytes > file_bytes_ && !FileHas(bytes)) return Repeats(schema::TableOf<Row>::kName);
      visit(std::move(row));
    }
    if (kHasId) bytes_read_ = bytes;
    return count;
  }

  static constexpr size_t kLeastRowBytes = 4;
  bool FileHas(size_t bytes);
  Status Repeats(const char* table) const;
  static Status Unreadable(const Status& status);

  Database database_;
  size_t bytes_read_ = 0;  // of rows with ids, each of which is read once
  size_t file_bytes_ = 0;  // when it was last asked
  int64_t segment_ = 0;
};

// CREATE TEMP VIEW for every view of the schema, in front of what the file itself has.
Status CreateTemporaryViews(Database* database);

}  // namespace shardscope::store
