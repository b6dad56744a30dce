// RareRows: rows that come seldom (tracks, plan ops, markers, ...). They go through one mutex and
// get their ids at once; the writer takes them all with each batch.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "trace/base/mutex.h"
#include "trace/schema/columns.h"
#include "trace/store/row_batch.h"

namespace shardscope::record {

class RareRows {
 public:
  // Sets row.id and returns its number; 0 where the table has none. Ids start at 1. Any thread.
  template <typename Row>
  int64_t Add(Row row) {
    const MutexLock lock(mutex_);
    int64_t id = 0;
    if constexpr (schema::TableOf<Row>::kHasId) {
      id = ++last_id_[schema::TableOf<Row>::kIndex];
      row.id = decltype(row.id)(id);
    }
    pending_.Get<Row>().push_back(std::move(row));
    return id;
  }
  // The id of `text`, which is stored once.
  schema::StringId Intern(std::string_view text) {
    const MutexLock lock(mutex_);
    const auto known = strings_.find(text);
    if (known != strings_.end()) return known->second;
    schema::StringRow row;
    row.id = schema::StringId(++last_id_[schema::TableOf<schema::StringRow>::kIndex]);
    row.text = text;
    strings_.emplace(text, row.id);
    pending_.Get<schema::StringRow>().push_back(row);
    return row.id;
  }

  // All rows since the last call.
  store::RowBatch Take() {
    const MutexLock lock(mutex_);
    return std::exchange(pending_, {});
  }

 private:
  Mutex mutex_;
  store::RowBatch pending_ GUARDED_BY(mutex_);
  std::array<int64_t, schema::kNumTables> last_id_ GUARDED_BY(mutex_) = {};
  std::map<std::string, schema::StringId, std::less<>> strings_ GUARDED_BY(mutex_);
};

}  // namespace shardscope::record
