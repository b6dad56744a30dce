// TraceReader: opens one trace file that nobody vouches for. Used by one thread at a time.
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
  Result<size_t> ReadAfter(int64_t after, size_t limit, Visit&& visit) {
    static_assert(schema::TableOf<Row>::kHasId);
    Result<Statement> select = database_.Prepare(std::string(schema::TableOf<Row>::kSelect) +
                                                 " WHERE id > ? ORDER BY id LIMIT ?");
    if (!select.ok()) return select.status();
    select->Bind(1, after);
    select->Bind(2, static_cast<int64_t>(limit));
    return Drain<Row>(&*select, std::forward<Visit>(visit));
  }

  // All rows of a table.
  template <typename Row, typename Visit>
  Result<size_t> ReadAll(Visit&& visit) {
    Result<Statement> select = database_.Prepare(schema::TableOf<Row>::kSelect);
    if (!select.ok()) return select.status();
    return Drain<Row>(&*select, std::forward<Visit>(visit));
  }

  Database& database() { return database_; }
  Database TakeDatabase() && { return std::move(database_); }

 private:
  template <typename Row, typename Visit>
  Result<size_t> Drain(Statement* select, Visit&& visit) {
    size_t count = 0;
    while (true) {
      const Result<bool> row = select->Step();
      if (!row.ok()) return row.status();
      if (!*row) return count;
      visit(ReadRow<Row>(*select));
      ++count;
    }
  }

  Database database_;
  int64_t segment_ = 0;
};

// CREATE TEMP VIEW for every view of the schema, in front of what the file itself has.
Status CreateTemporaryViews(Database* database);

}  // namespace shardscope::store
