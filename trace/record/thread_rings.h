// ThreadRings: the rings of one recording thread, one a kind of record, made on first use.
//
// Owner: the Recorder, which outlives the thread's pushes. Threads: one pushes, the writer drains.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <tuple>

#include "trace/record/lost_memory.h"
#include "trace/record/spsc_ring.h"
#include "trace/schema/columns.h"

namespace shardscope::record {

// Numbers by kind of record (schema::RecordOf<T>::kIndex).
using HotCounts = std::array<int64_t, schema::kNumHotRecords>;

// One ring that its thread makes on first use and the writer sees from then on.
template <typename T>
class LazyRing {
 public:
  // Producer. A ring that is never used costs no memory.
  SpscRing<T>& Make(size_t capacity) {
    if (!owned_) {
      owned_ = std::make_unique<SpscRing<T>>(capacity);
      published_.store(owned_.get(), std::memory_order_release);
    }
    return *owned_;
  }
  // Producer or consumer; null if nothing was pushed yet.
  SpscRing<T>* Get() const { return published_.load(std::memory_order_acquire); }

 private:
  std::unique_ptr<SpscRing<T>> owned_;
  std::atomic<SpscRing<T>*> published_ = nullptr;
};

struct ThreadRings {
  schema::Each<std::tuple, LazyRing, schema::HotRecords> rings;
  // Records that this thread lost because a ring was full.
  std::array<std::atomic<int64_t>, schema::kNumHotRecords> dropped = {};
  LostInRing lost_memory;  // of those
};

}  // namespace shardscope::record
