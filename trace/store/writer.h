// TraceWriter: the one connection that writes and checkpoints a live trace. Owner: the recorder's
// writer thread. Readers tail the file meanwhile (WAL).
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "trace/base/status.h"
#include "trace/schema/columns.h"
#include "trace/store/database.h"
#include "trace/store/row_io.h"
#include "trace/store/trace_file.h"

namespace shardscope::store {

// Makes an empty live trace of an empty database.
Status CreateLiveSchema(Database* database);

class TraceWriter {
 public:
  // Creates a new live trace in `folder`, which must exist, and takes its lock.
  static Result<std::unique_ptr<TraceWriter>> Create(const std::string& folder);

  Status Begin() { return database_.Execute("BEGIN"); }
  Status Commit() { return database_.Execute("COMMIT"); }
  void Rollback() { (void)database_.Execute("ROLLBACK"); }

  template <typename Row>
  Status Insert(const Row& row) {
    std::optional<Statement>& statement = inserts_[schema::TableOf<Row>::kIndex];
    if (!statement) {
      Result<Statement> prepared = database_.Prepare(schema::TableOf<Row>::kInsert);
      if (!prepared.ok()) return prepared.status();
      statement = std::move(prepared).value();
    }
    BindRow(row, &*statement);
    return statement->Run();
  }

  Status SetMeta(std::string_view key, std::string_view value);

  // Bytes of the live file with its log.
  int64_t SizeBytes() const;

  // Publishes state `finishing`, then replaces the live file by the finished one. Nothing can be
  // written afterwards.
  Status Finish();

  const TraceFile& file() const { return file_; }

 private:
  TraceWriter(TraceFile file, TraceLock lock, Database database);

  TraceFile file_;
  TraceLock lock_;
  Database database_;
  std::array<std::optional<Statement>, schema::kNumTables> inserts_;
};

}  // namespace shardscope::store
