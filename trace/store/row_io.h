// Rows to and from statements.
#pragma once

#include <array>
#include <optional>

#include "trace/schema/columns.h"
#include "trace/schema/fields.h"
#include "trace/store/database.h"
#include "trace/store/row_batch.h"

namespace shardscope::store {

// Binds fields to parameters 1, 2, ... of a statement made from Table::insert.
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

// Gives columns 0, 1, ... of a statement made from Table::select.
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

// Inserts rows of any table into one database, which outlives it or Forget().
class RowInserter {
 public:
  template <typename Row>
  Status Insert(const Row& row, Database* database) {
    std::optional<Statement>& statement = statements_[kTable<Row>.index];
    if (!statement) SHARDSCOPE_RETURN_IF_ERROR(Prepare(kTable<Row>, database));
    Binder binder(&*statement);
    WriteFields(row, &binder);  // which has to live until the statement ran
    return statement->Run();
  }
  Status Insert(const AnyRows& rows, size_t index, Database* database);

  // Before another database.
  void Forget() {
    for (std::optional<Statement>& statement : statements_) statement.reset();
  }

 private:
  Status Prepare(const Table& table, Database* database);

  std::array<std::optional<Statement>, schema::kNumTables> statements_;
};

// Inserts all rows, within whatever transaction there is.
Status InsertRows(const RowBatch& batch, Database* database);
// Likewise in one of its own.
Status InsertBatch(const RowBatch& batch, Database* database);

}  // namespace shardscope::store
