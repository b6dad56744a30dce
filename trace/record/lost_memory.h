// LostMemory: what the memory events took and freed that were lost, with their batch or as a ring
// was full, so that what is live after a hole is known. Owner: the BatchWriter.
//
// At most two rows an account stand for the lost events: at the time of the first the least that
// they left, at the time of the last the rest. So nothing in the hole adds up to more than was
// live, and everything behind it is exact.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "trace/base/mutex.h"
#include "trace/record/memory_account.h"

namespace shardscope::record {

// Sums of lost events. One thread.
class LostEvents {
 public:
  // Events in order of time, as each of their threads gives them.
  void Add(const schema::MemoryEventRow& row);
  // Those of another, which are later ones of the same threads or of others.
  void Add(const LostEvents& later);

  // The rows, without ids, that stand for them.
  std::vector<schema::MemoryEventRow> Rows() const;

 private:
  struct Change {
    int64_t bytes = 0;
    int64_t least = 0;  // the lowest sum of the first so many events; of none: 0
    int64_t first_issued_ns = std::numeric_limits<int64_t>::max();
    int64_t first_executed_ns = std::numeric_limits<int64_t>::max();
    int64_t last_issued_ns = std::numeric_limits<int64_t>::min();
    int64_t last_executed_ns = std::numeric_limits<int64_t>::min();
  };
  void Add(const MemoryAccount& account, const Change& later);

  std::map<MemoryAccount, Change> changes_;
};

// Of one recording thread, whose ring had no room for them. That thread adds, the writer takes.
class LostInRing {
 public:
  void Add(const schema::MemoryEventRow& row) {
    const MutexLock lock(mutex_);
    events_.Add(row);
  }
  template <typename T>
  void Add(const T&) {}
  LostEvents Take() {
    const MutexLock lock(mutex_);
    return std::exchange(events_, {});
  }

 private:
  Mutex mutex_;
  LostEvents events_ GUARDED_BY(mutex_);
};

class LostMemory {
 public:
  // Every row of the open batch; those of one kind in order of time. Others than memory events are
  // no matter.
  void Follow(const schema::MemoryEventRow& row) { batch_.push_back(row); }
  template <typename T>
  void Follow(const T&) {}

  // The rows, without ids, that stand for what was lost: they belong into the open batch.
  std::vector<schema::MemoryEventRow> Rows() const { return lost_.Rows(); }

  // The open batch was committed, with Rows(), or was lost.
  void EndBatch(bool committed);

  // What was lost behind the rows of the last batch.
  void Add(const LostEvents& events) { lost_.Add(events); }

 private:
  std::vector<schema::MemoryEventRow> batch_;
  LostEvents lost_;
};

}  // namespace shardscope::record
