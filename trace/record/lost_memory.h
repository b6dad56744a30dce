// LostMemory: what the memory events of lost batches took and freed, so that what is live after a
// hole is known. Owner: the BatchWriter.
//
// At most two rows an account stand for the lost events: at the time of the first the least that
// they left, at the time of the last the rest. So nothing in the hole adds up to more than was
// live, and everything behind it is exact.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "trace/record/memory_account.h"

namespace shardscope::record {

class LostMemory {
 public:
  // Every row of the open batch; those of one kind in order of time. Others than memory events are
  // no matter.
  void Follow(const schema::MemoryEventRow& row) { batch_.push_back(row); }
  template <typename T>
  void Follow(const T&) {}

  // The rows, without ids, that stand for what was lost: they belong into the open batch.
  std::vector<schema::MemoryEventRow> Rows() const;

  // The open batch was committed, with Rows(), or was lost.
  void EndBatch(bool committed);

 private:
  struct Change {
    int64_t bytes = 0;
    int64_t least = 0;  // the lowest sum of the first so many events; of none: 0
    int64_t first_issued_ns = std::numeric_limits<int64_t>::max();
    int64_t first_executed_ns = std::numeric_limits<int64_t>::max();
    int64_t last_issued_ns = std::numeric_limits<int64_t>::min();
    int64_t last_executed_ns = std::numeric_limits<int64_t>::min();
  };

  std::vector<schema::MemoryEventRow> batch_;
  std::map<MemoryAccount, Change> lost_;
};

}  // namespace shardscope::record
