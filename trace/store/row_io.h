// Rows to and from statements, by the generated description of their tables.
#pragma once

#include <iterator>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "trace/schema/columns.h"
#include "trace/store/database.h"

namespace shardscope::store {

// Binds all fields to parameters 1, 2, ... of a statement made from TableOf<Row>::kInsert. The row
// must live until the statement ran.
template <typename Row>
void BindRow(const Row& row, Statement* statement) {
  int parameter = 0;
  schema::TableOf<Row>::ForEachField(row, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_arithmetic_v<Field>) {
      statement->Bind(++parameter, field);
    } else {
      statement->Bind(++parameter, std::string_view(field));
    }
  });
}

// Reads all fields from columns 0, 1, ... of a statement made from TableOf<Row>::kSelect.
template <typename Row>
Row ReadRow(const Statement& statement) {
  Row row;
  int column = 0;
  schema::TableOf<Row>::ForEachField(row, [&](auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, int64_t>) {
      field = statement.Integer(column++);
    } else if constexpr (std::is_same_v<Field, double>) {
      field = statement.Real(column++);
    } else {
      field = Field(statement.Text(column++));
    }
  });
  return row;
}

// A file of a run has ids below this; larger ones are claims of a damaged file.
inline constexpr int64_t kIdsPerFile = int64_t{1} << 40;

// Makes the ids of one file of a run distinct from those of the others. Negative ids mean "none".
template <typename Row>
void ShiftIds(int64_t shift, Row* row) {
  if (shift == 0) return;
  schema::TableOf<Row>::ForEachId(*row, [&](int64_t& id) {
    if (id >= 0) id = id < kIdsPerFile ? id + shift : -1;
  });
}

// The shift of the file with this position in its run.
inline int64_t IdShift(size_t file_index) { return static_cast<int64_t>(file_index) * kIdsPerFile; }

// Some rows of every table.
template <typename List>
struct RowsOf;
template <typename... Rows>
struct RowsOf<schema::TypeList<Rows...>> {
  using Type = std::tuple<std::vector<Rows>...>;
};
struct RowBatch {
  RowsOf<schema::AllRows>::Type tables;

  template <typename Row>
  std::vector<Row>& Get() {
    return std::get<std::vector<Row>>(tables);
  }
  template <typename Row>
  const std::vector<Row>& Get() const {
    return std::get<std::vector<Row>>(tables);
  }
};

inline bool IsEmpty(const RowBatch& batch) {
  bool empty = true;
  schema::ForEachTable(schema::AllRows(),
                       [&]<typename Row>() { empty = empty && batch.Get<Row>().empty(); });
  return empty;
}

// Inserts all rows in one transaction.
Status InsertBatch(const RowBatch& batch, Database* database);

// Moves all rows of *from to the end of *to.
inline void AppendRows(RowBatch* from, RowBatch* to) {
  schema::ForEachTable(schema::AllRows(), [&]<typename Row>() {
    std::vector<Row>& rows = from->Get<Row>();
    std::vector<Row>& target = to->Get<Row>();
    target.insert(target.end(), std::make_move_iterator(rows.begin()),
                  std::make_move_iterator(rows.end()));
    rows.clear();
  });
}

}  // namespace shardscope::store
