// RowBatch: some rows of every table. What is done to all tables alike is written, and compiled,
// once: with AnyRows, the rows of whichever table.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "trace/schema/columns.h"
#include "trace/schema/fields.h"

namespace shardscope::store {

// What schema::TableOf says of a table, for code that serves all of them.
struct Table {
  size_t index = 0;
  const char* name = "";
  const char* insert = "";
  const char* select = "";
  bool has_id = false;
  bool hot = false;
  bool derived = false;
  bool sql_only = false;
  bool has_moments = false;
  schema::PartRule part = schema::PartRule::kAll;
};

template <typename Row>
inline constexpr Table kTable = {schema::TableOf<Row>::kIndex,
                                 schema::TableOf<Row>::kName,
                                 schema::TableOf<Row>::kInsert,
                                 schema::TableOf<Row>::kSelect,
                                 schema::TableOf<Row>::kHasId,
                                 schema::TableOf<Row>::kHot,
                                 schema::TableOf<Row>::kDerived,
                                 schema::TableOf<Row>::kSqlOnly,
                                 !schema::TableOf<Row>::kMoments.empty(),
                                 schema::TableOf<Row>::kPart};

// Both included.
struct IdRange {
  int64_t first = INT64_MIN;
  int64_t last = INT64_MAX;

  bool Contains(int64_t id) const { return id >= first && id <= last; }
};

class AnyRows {
 public:
  explicit AnyRows(const Table& table) : table_(table) {}
  virtual ~AnyRows() = default;
  AnyRows(const AnyRows&) = delete;
  AnyRows& operator=(const AnyRows&) = delete;

  const Table& table() const { return table_; }
  virtual size_t size() const = 0;

  // Appends a row.
  virtual void Read(schema::FieldSource* fields) = 0;
  virtual void Write(size_t index, schema::FieldSink* fields) const = 0;
  // 0 where the table has no ids.
  virtual int64_t IdOf(size_t index) const = 0;
  // Whether the ids from row `first` on ascend, the first of them above `before`.
  virtual bool IdsAscend(size_t first, int64_t before) const = 0;
  // Removes those from row `first` on whose ids are not in `ids`.
  virtual void KeepIds(size_t first, const IdRange& ids) = 0;

  // Moves all rows to the end of others of the same table.
  virtual void MoveTo(AnyRows* to) = 0;
  // Likewise copies of them.
  virtual void CopyTo(AnyRows* to) const = 0;
  virtual void RemoveLast() = 0;
  // Removes all rows, whose memory the next ones take.
  virtual void Clear() = 0;
  // Of a table whose rows are each of one step (schema::TableOf::kPerStep): removes those from
  // `first` on that are of `step` or an earlier one. Of another table: none.
  virtual void RemoveThroughStep(size_t first, int64_t step) = 0;

  // Adds to the rows' ids, their own and those they refer to, that are below `most`; makes others
  // none. Negative ids mean "none".
  virtual void ShiftIds(int64_t shift, int64_t most) = 0;
  // Every time of CLOCK_MONOTONIC.
  virtual void ForEachMoment(const std::function<void(int64_t*)>& visit) = 0;

 private:
  const Table& table_;
};

template <typename Row>
class TypedRows : public AnyRows {
 public:
  using AnyRows::AnyRows;
  std::vector<Row> rows;
};

class RowBatch {
 public:
  RowBatch();
  ~RowBatch();
  // What was moved from is empty, and for that takes memory.
  RowBatch(RowBatch&& other);
  RowBatch& operator=(RowBatch&& other);

  template <typename Row>
  std::vector<Row>& Get() {
    return static_cast<TypedRows<Row>&>(At(schema::TableOf<Row>::kIndex)).rows;
  }
  template <typename Row>
  const std::vector<Row>& Get() const {
    return static_cast<const TypedRows<Row>&>(At(schema::TableOf<Row>::kIndex)).rows;
  }

  // By Table::index, below schema::kNumTables: the order of tables.py.
  AnyRows& At(size_t table) { return *tables_[table]; }
  const AnyRows& At(size_t table) const { return *tables_[table]; }

 private:
  std::array<std::unique_ptr<AnyRows>, schema::kNumTables> tables_;
};

bool IsEmpty(const RowBatch& batch);

// Removes all rows, whose memory the next ones take.
void Clear(RowBatch* batch);

// Moves all rows of *from to the end of *to.
void AppendRows(RowBatch* from, RowBatch* to);

// A file of a run has ids below this; larger ones are claims of a damaged file.
inline constexpr int64_t kIdsPerFile = int64_t{1} << 40;

// The shift of the file with this position in its run.
inline int64_t IdShift(size_t file_index) { return static_cast<int64_t>(file_index) * kIdsPerFile; }

// Makes the ids of one file of a run distinct from those of the others.
void ShiftIds(int64_t shift, RowBatch* batch);

}  // namespace shardscope::store
