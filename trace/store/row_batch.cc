#include "trace/store/row_batch.h"

#include <algorithm>
#include <iterator>

namespace shardscope::store {
namespace {

template <typename Row>
class TableRows final : public TypedRows<Row> {
 public:
  TableRows() : TypedRows<Row>(kTable<Row>) {}

  size_t size() const override { return rows.size(); }
  void Read(schema::FieldSource* fields) override { ReadFields(fields, &rows.emplace_back()); }
  void Write(size_t index, schema::FieldSink* fields) const override {
    WriteFields(rows[index], fields);
  }
  int64_t IdOf([[maybe_unused]] size_t index) const override {
    if constexpr (OfTable::kHasId) return rows[index].id.value();
    return 0;
  }
  bool IdsAscend(size_t first, int64_t before) const override {
    for (size_t i = first; i < rows.size(); ++i) {
      const int64_t id = TableRows::IdOf(i);
      if (id <= before) return false;
      before = id;
    }
    return true;
  }
  void KeepIds([[maybe_unused]] size_t first, [[maybe_unused]] const IdRange& ids) override {
    if constexpr (OfTable::kHasId) {
      const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(first);
      const auto is_beyond = [&ids](const Row& row) { return !ids.Contains(row.id.value()); };
      rows.erase(std::remove_if(begin, rows.end(), is_beyond), rows.end());
    }
  }
  void MoveTo(AnyRows* to) override {
    std::vector<Row>& target = static_cast<TypedRows<Row>*>(to)->rows;
    if (target.empty()) {
      target.swap(rows);
      return;
    }
    for (Row& row : rows) target.push_back(std::move(row));
    rows.clear();
  }
  void CopyTo(AnyRows* to) const override {
    std::vector<Row>& target = static_cast<TypedRows<Row>*>(to)->rows;
    target.insert(target.end(), rows.begin(), rows.end());
  }
  void RemoveLast() override { rows.pop_back(); }
  void Clear() override { rows.clear(); }
  void RemoveThroughStep([[maybe_unused]] size_t first, [[maybe_unused]] int64_t step) override {
    if constexpr (OfTable::kPerStep) {
      const auto begin = rows.begin() + static_cast<ptrdiff_t>(first);
      const auto is_before = [step](const Row& row) { return row.step >= 0 && row.step <= step; };
      rows.erase(std::remove_if(begin, rows.end(), is_before), rows.end());
    }
  }
  void ShiftIds(int64_t shift, int64_t most) override {
    for (Row& row : rows) {
      OfTable::ForEachId(&row, [shift, most]<typename Tag>(Id<Tag>* id) {
        if (id->is_none()) return;
        *id = id->value() < most ? Id<Tag>(id->value() + shift) : Id<Tag>::None();
      });
    }
  }
  void ForEachMoment(const std::function<void(int64_t*)>& visit) override {
    for (Row& row : rows) {
      for (int64_t Row::*moment : OfTable::kMoments) visit(&(row.*moment));
    }
  }

 private:
  using OfTable = schema::TableOf<Row>;
  using TypedRows<Row>::rows;
};

}  // namespace

RowBatch::RowBatch() {
  schema::ForEachType(schema::AllRows(), [this]<typename Row>() {
    tables_[schema::TableOf<Row>::kIndex] = std::make_unique<TableRows<Row>>();
  });
}

RowBatch::~RowBatch() = default;

RowBatch::RowBatch(RowBatch&& other) : RowBatch() { tables_.swap(other.tables_); }

RowBatch& RowBatch::operator=(RowBatch&& other) {
  RowBatch taken(std::move(other));
  tables_.swap(taken.tables_);
  return *this;
}

bool IsEmpty(const RowBatch& batch) {
  for (size_t table = 0; table < schema::kNumTables; ++table) {
    if (batch.At(table).size() > 0) return false;
  }
  return true;
}

void Clear(RowBatch* batch) {
  for (size_t table = 0; table < schema::kNumTables; ++table) batch->At(table).Clear();
}

void AppendRows(RowBatch* from, RowBatch* to) {
  for (size_t table = 0; table < schema::kNumTables; ++table)
    from->At(table).MoveTo(&to->At(table));
}

void ShiftIds(int64_t shift, RowBatch* batch) {
  if (shift == 0) return;
  for (size_t table = 0; table < schema::kNumTables; ++table)
    batch->At(table).ShiftIds(shift, kIdsPerFile);
}

}  // namespace shardscope::store
