// FinishedWriter: writes a finished trace whose rows were never live: what was imported. One thread
// at a time.
#pragma once

#include <memory>
#include <string>

#include "trace/base/status.h"
#include "trace/store/database.h"
#include "trace/store/row_io.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

class FinishedWriter {
 public:
  // The trace has no other writer. Until Finish() its file has another name, and what is left of
  // it goes with the writer.
  static Result<std::unique_ptr<FinishedWriter>> Create(TraceFile file);
  ~FinishedWriter();
  FinishedWriter(const FinishedWriter&) = delete;
  FinishedWriter& operator=(const FinishedWriter&) = delete;

  // Rows of a table come in the order of their ids.
  template <typename Row>
  Status Insert(const Row& row) {
    return inserter_.Insert(row, &database_);
  }
  Status Insert(const AnyRows& rows, size_t index) {
    return inserter_.Insert(rows, index, &database_);
  }
  Status SetMeta(std::string_view key, std::string_view value);

  // Adds indexes, views and derived rows, and gives the file its name. Nothing can be written
  // afterwards.
  Status Finish();

  const TraceFile& file() const { return file_; }

 private:
  FinishedWriter(TraceFile file, Database database)
      : file_(std::move(file)), database_(std::move(database)) {}

  const TraceFile file_;
  Database database_;
  RowInserter inserter_;  // into database_: ends before it
};

}  // namespace shardscope::store
