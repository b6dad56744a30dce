#include "trace/store/row_io.h"

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

}  // namespace

Status InsertBatch(const RowBatch& batch, Database* database) {
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  Status status;
  schema::ForEachTable(schema::AllRows(), [&]<typename Row>() {
    if (status.ok()) status = InsertAll(batch.Get<Row>(), database);
  });
  if (!status.ok()) return status;
  return database->Execute("COMMIT");
}

}  // namespace shardscope::store
