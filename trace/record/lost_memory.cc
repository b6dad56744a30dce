#include "trace/record/lost_memory.h"

#include <algorithm>
#include <utility>

namespace shardscope::record {

void LostEvents::Add(const MemoryAccount& account, const Change& later) {
  Change& change = changes_[account];
  change.least = std::min(change.least, change.bytes + later.least);
  change.bytes += later.bytes;
  change.first_issued_ns = std::min(change.first_issued_ns, later.first_issued_ns);
  change.first_executed_ns = std::min(change.first_executed_ns, later.first_executed_ns);
  change.last_issued_ns = std::max(change.last_issued_ns, later.last_issued_ns);
  change.last_executed_ns = std::max(change.last_executed_ns, later.last_executed_ns);
}

void LostEvents::Add(const schema::MemoryEventRow& row) {
  Add(MemoryAccount::Of(row), {.bytes = row.bytes,
                               .least = std::min<int64_t>(row.bytes, 0),
                               .first_issued_ns = row.issued_ns,
                               .first_executed_ns = row.executed_ns,
                               .last_issued_ns = row.issued_ns,
                               .last_executed_ns = row.executed_ns});
}

void LostEvents::Add(const LostEvents& later) {
  for (const auto& [account, change] : later.changes_) Add(account, change);
}

std::vector<schema::MemoryEventRow> LostEvents::Rows() const {
  std::vector<schema::MemoryEventRow> rows;
  for (const auto& [account, change] : changes_) {
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
    lost_ = {};
    batch_.clear();
    return;
  }
  for (const schema::MemoryEventRow& row : std::exchange(batch_, {})) lost_.Add(row);
}

}  // namespace shardscope::record
