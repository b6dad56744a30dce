#include "trace/record/lost_memory.h"

#include <algorithm>
#include <utility>

namespace shardscope::record {

std::vector<schema::MemoryEventRow> LostMemory::Rows() const {
  std::vector<schema::MemoryEventRow> rows;
  for (const auto& [account, change] : lost_) {
    if (change.least != 0) {
      rows.push_back(account.Event(change.first_issued_ns, change.first_executed_ns, change.least));
    }
    const int64_t rest = change.bytes - change.least;
    if (rest != 0)
      rows.push_back(account.Event(change.last_issued_ns, change.last_executed_ns, rest));
  }
  return rows;
}

void LostMemory::EndBatch(bool committed) {
  if (committed) {
    lost_.clear();
    batch_.clear();
    return;
  }
  const std::vector<schema::MemoryEventRow> batch = std::exchange(batch_, {});
  for (const schema::MemoryEventRow& row : batch) {
    Change& change = lost_[MemoryAccount::Of(row)];
    change.bytes += row.bytes;
    change.least = std::min(change.least, change.bytes);
    change.first_issued_ns = std::min(change.first_issued_ns, row.issued_ns);
    change.first_executed_ns = std::min(change.first_executed_ns, row.executed_ns);
    change.last_issued_ns = std::max(change.last_issued_ns, row.issued_ns);
    change.last_executed_ns = std::max(change.last_executed_ns, row.executed_ns);
  }
}

}  // namespace shardscope::record
