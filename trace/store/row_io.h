// Rows to and from statements, and some rows of every table.
#pragma once

#include <array>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/schema/columns.h"
#include "trace/schema/fields.h"
#include "trace/store/database.h"

namespace shardscope::store {

// Binds fields to parameters 1, 2, ... of a statement made from TableOf<Row>::kInsert.
class Binder final : public schema::FieldSink {
 public:
  explicit Binder(Statement* statement) : statement_(statement) {}
  void Integer(int64_t value) override { statement_->Bind(++parameter_, value); }
  void Real(double value) override { statement_->Bind(++parameter_, value); }
  void Text(std::string_view value) override { statement_->Bind(++parameter_, value); }

 private:
  Statement* const statement_;
  int parameter_ = 0;
};

// Gives columns 0, 1, ... of a statement made from TableOf<Row>::kSelect.
class ColumnSource final : public schema::FieldSource {
 public:
  explicit ColumnSource(const Statement& statement) : statement_(statement) {}
  int64_t Integer() override { return statement_.Integer(column_++); }
  double Real() override { return statement_.Real(column_++); }
  std::string_view Text() override { return statement_.Text(column_++); }

 private:
  const Statement& statement_;
  int column_ = 0;
};

// The row must live until the statement ran.
template <typename Row>
void BindRow(const Row& row, Statement* statement) {
  Binder binder(statement);
  WriteFields(row, &binder);
}

template <typename Row>
Row ReadRow(const Statement& statement) {
  Row row;
  ColumnSource columns(statement);
  ReadFields(&columns, &row);
  return row;
}

// Inserts rows of any table into one database, which outlives it or Forget().
class RowInserter {
 public:
  template <typename Row>
  Status Insert(const Row& row, Database* database) {
    std::optional<Statement>& statement = statements_[schema::TableOf<Row>::kIndex];
    if (!statement) {
      Result<Statement> prepared = database->Prepare(schema::TableOf<Row>::kInsert);
      if (!prepared.ok()) return prepared.status();
      statement = std::move(prepared).value();
    }
    BindRow(row, &*statement);
    return statement->Run();
  }

  // Before another database.
  void Forget() {
    for (std::optional<Statement>& statement : statements_) statement.reset();
  }

 private:
  std::array<std::optional<Statement>, schema::kNumTables> statements_;
};

// A file of a run has ids below this; larger ones are claims of a damaged file.
inline constexpr int64_t kIdsPerFile = int64_t{1} << 40;

// The shift of the file with this position in its run.
inline int64_t IdShift(size_t file_index) { return static_cast<int64_t>(file_index) * kIdsPerFile; }

template <typename Row>
using Rows = std::vector<Row>;

// Some rows of every table.
struct RowBatch {
  RowBatch();
  ~RowBatch();
  RowBatch(const RowBatch&);
  RowBatch(RowBatch&&) noexcept;
  RowBatch& operator=(const RowBatch&);
  RowBatch& operator=(RowBatch&&) noexcept;

  template <typename Row>
  std::vector<Row>& Get() {
    return std::get<std::vector<Row>>(tables);
  }
  template <typename Row>
  const std::vector<Row>& Get() const {
    return std::get<std::vector<Row>>(tables);
  }

  schema::Each<std::tuple, Rows, schema::AllRows> tables;
};

bool IsEmpty(const RowBatch& batch);

// Inserts all rows in one transaction.
Status InsertBatch(const RowBatch& batch, Database* database);

// Moves all rows of *from to the end of *to.
void AppendRows(RowBatch* from, RowBatch* to);

// Makes the ids of one file of a run distinct from those of the others. Negative ids mean "none".
void ShiftIds(int64_t shift, RowBatch* batch);

}  // namespace shardscope::store
