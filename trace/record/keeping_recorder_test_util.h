// For tests: a recorder that keeps all rows.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/record/null_recorder_test_util.h"
#include "trace/schema/columns.h"

namespace shardscope::record {

class KeepingRecorder : public NullRecorder {
 public:
  // Every table's ids begin with `first_id`.
  explicit KeepingRecorder(int64_t first_id = 1)
      : NullRecorder(TakersOf<KeepingRecorder>(schema::HotRecords())), first_id_(first_id) {}

  // In the order in which they came. Read while nothing writes.
  template <typename Row>
  const std::vector<Row>& Rare() const {
    return std::get<std::vector<Row>>(rare_);
  }
  template <typename T>
  const std::vector<T>& Hot() const {
    return std::get<std::vector<T>>(hot_);
  }
  const std::vector<std::string>& strings() const { return strings_; }  // of ids 1, 2, ...

  schema::StringId AddString(std::string_view text) override {
    const MutexLock lock(mutex_);
    strings_.emplace_back(text);
    return schema::StringId(static_cast<int64_t>(strings_.size()));
  }

 private:
  friend class Recorder;

  template <typename T>
  using Rows = std::vector<T>;

  int64_t AddRow(RareRow row) override {
    const MutexLock lock(mutex_);
    return std::visit([this](auto* rare) { return Keep(std::move(*rare)); }, row);
  }
  template <typename T>
  void Take(const T& record) {
    const MutexLock lock(mutex_);
    std::get<Rows<T>>(hot_).push_back(record);
  }
  template <typename Row>
  int64_t Keep(Row row) {
    auto& rows = std::get<Rows<Row>>(rare_);
    const int64_t id = first_id_ + static_cast<int64_t>(rows.size());
    if constexpr (schema::TableOf<Row>::kHasId) row.id = decltype(row.id)(id);
    rows.push_back(std::move(row));
    return id;
  }

  const int64_t first_id_;
  Mutex mutex_;
  schema::Each<std::tuple, Rows, schema::RareRows> rare_;
  schema::Each<std::tuple, Rows, schema::HotRecords> hot_;
  std::vector<std::string> strings_;
};

}  // namespace shardscope::record
