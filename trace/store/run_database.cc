#include "trace/store/run_database.h"

#include <utility>

#include "trace/schema/ddl.h"
#include "trace/store/reader.h"
#include "trace/store/run_source.h"

namespace shardscope::store {
namespace {

template <typename Row>
Status InsertAll(const std::vector<Row>& rows, Database* database) {
  if (rows.empty()) return Status::Ok();
  Result<Statement> insert = database->Prepare(schema::TableOf<Row>::kInsert);
  if (!insert.ok()) return insert.status();
  for (const Row& row : rows) {
    BindRow(row, &*insert);
    SHARDSCOPE_RETURN_IF_ERROR(insert->Run());
  }
  return Status::Ok();
}

Status InsertBatch(const RowBatch& batch, Database* database) {
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  Status status;
  schema::ForEachTable(schema::AllRows(), [&]<typename Row>() {
    if (status.ok()) status = InsertAll(batch.Get<Row>(), database);
  });
  if (!status.ok()) return status;
  return database->Execute("COMMIT");
}

Result<Database> Merge(const RunFolder& run) {
  Result<Database> merged = Database::OpenInMemory();
  if (!merged.ok()) return merged;
  for (const std::string& table : schema::CreateTables()) {
    SHARDSCOPE_RETURN_IF_ERROR(merged->Execute(table));
  }
  Result<std::unique_ptr<RunSource>> source = RunSource::Open(run, RunSource::Purpose::kReadOnce);
  if (!source.ok()) return source.status();
  for (bool more = true; more;) {
    RowBatch batch;
    const Result<bool> left = source.value()->Read(&batch);
    if (!left.ok()) return left.status();
    more = left.value();
    SHARDSCOPE_RETURN_IF_ERROR(InsertBatch(batch, &*merged));
  }
  for (const std::string& index : schema::CreateIndexes()) {
    SHARDSCOPE_RETURN_IF_ERROR(merged->Execute(index));
  }
  SHARDSCOPE_RETURN_IF_ERROR(CreateTemporaryViews(&*merged));
  merged->Seal();
  return merged;
}

}  // namespace

Result<Database> OpenRunDatabase(const RunFolder& run) {
  if (run.traces.size() > 1 || LiveSegments(run.traces.front()).size() > 1) return Merge(run);
  Result<TraceReader> reader = TraceReader::OpenNewest(run.traces.front());
  if (!reader.ok()) return reader.status();
  return std::move(reader).value().TakeDatabase();
}

}  // namespace shardscope::store
