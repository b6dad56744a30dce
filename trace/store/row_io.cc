#include "trace/store/row_io.h"

namespace shardscope::store {

Status RowInserter::Prepare(const Table& table, Database* database) {
  Result<Statement> prepared = database->Prepare(table.insert);
  if (!prepared.ok()) return prepared.status();
  statements_[table.index] = std::move(prepared).value();
  return Status::Ok();
}

Status RowInserter::Insert(const AnyRows& rows, size_t index, Database* database) {
  std::optional<Statement>& statement = statements_[rows.table().index];
  if (!statement) SHARDSCOPE_RETURN_IF_ERROR(Prepare(rows.table(), database));
  Binder binder(&*statement);
  rows.Write(index, &binder);
  return statement->Run();
}

Status InsertRows(const RowBatch& batch, Database* database) {
  RowInserter inserter;
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    const AnyRows& rows = batch.At(table);
    for (size_t index = 0; index < rows.size(); ++index)
      SHARDSCOPE_RETURN_IF_ERROR(inserter.Insert(rows, index, database));
  }
  return Status::Ok();
}

Status InsertBatch(const RowBatch& batch, Database* database) {
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  SHARDSCOPE_RETURN_IF_ERROR(InsertRows(batch, database));
  return database->Execute("COMMIT");
}

}  // namespace shardscope::store
