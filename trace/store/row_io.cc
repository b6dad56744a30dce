#include "trace/store/row_io.h"

#include <iterator>

namespace shardscope::store {
namespace {

template <typename Row>
Status InsertAll(const std::vector<Row>& rows, Database* database) {
  if (rows.empty()) return Status::Ok();
  SHARDSCOPE_ASSIGN_OR_RETURN(Statement insert, database->Prepare(schema::TableOf<Row>::kInsert));
  for (const Row& row : rows) {
    BindRow(row, &insert);
    SHARDSCOPE_RETURN_IF_ERROR(insert.Run());
  }
  return Status::Ok();
}

}  // namespace

// Out of line: they are code of every table.
RowBatch::RowBatch() = default;
RowBatch::~RowBatch() = default;
RowBatch::RowBatch(const RowBatch&) = default;
RowBatch::RowBatch(RowBatch&&) noexcept = default;
RowBatch& RowBatch::operator=(const RowBatch&) = default;
RowBatch& RowBatch::operator=(RowBatch&&) noexcept = default;

bool IsEmpty(const RowBatch& batch) {
  bool empty = true;
  schema::ForEachType(schema::AllRows(),
                      [&]<typename Row>() { empty = empty && batch.Get<Row>().empty(); });
  return empty;
}

Status InsertBatch(const RowBatch& batch, Database* database) {
  SHARDSCOPE_RETURN_IF_ERROR(database->Execute("BEGIN"));
  Status status;
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    if (status.ok()) status = InsertAll(batch.Get<Row>(), database);
  });
  if (!status.ok()) return status;
  return database->Execute("COMMIT");
}

void AppendRows(RowBatch* from, RowBatch* to) {
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    std::vector<Row>& rows = from->Get<Row>();
    std::vector<Row>& target = to->Get<Row>();
    target.insert(target.end(), std::make_move_iterator(rows.begin()),
                  std::make_move_iterator(rows.end()));
    rows.clear();
  });
}

void ShiftIds(int64_t shift, RowBatch* batch) {
  if (shift == 0) return;
  schema::ForEachType(schema::AllRows(), [&]<typename Row>() {
    for (Row& row : batch->Get<Row>()) {
      schema::TableOf<Row>::ForEachId(&row, [shift]<typename Tag>(Id<Tag>* id) {
        if (id->is_none()) return;
        *id = id->value() < kIdsPerFile ? Id<Tag>(id->value() + shift) : Id<Tag>::None();
      });
    }
  });
}

}  // namespace shardscope::store
