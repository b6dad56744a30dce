// ThreadRings: the rings of one recording thread, one a kind of hot row, made on first use.
//
// Owner: the Recorder, which outlives the thread's pushes. Threads: one pushes, the writer drains.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <tuple>

#include "trace/record/recorder.h"
#include "trace/record/spsc_ring.h"

namespace shardscope::record {

// What the rings keep, in the order in which a batch is written.
enum class HotKind : uint8_t {
  kOp,
  kStep,
  kSpan,
  kMemory,
  kCounter,
  kGpuWork,
  kNccl,
  kEventEdge,
  kMemorySegment,
  kAllocation
};
inline constexpr size_t kNumHotKinds = 10;
using HotCounts = std::array<int64_t, kNumHotKinds>;

template <typename T>
inline constexpr HotKind kKindOf = HotKind::kOp;
template <>
inline constexpr HotKind kKindOf<schema::StepRow> = HotKind::kStep;
template <>
inline constexpr HotKind kKindOf<schema::SpanRow> = HotKind::kSpan;
template <>
inline constexpr HotKind kKindOf<schema::MemoryEventRow> = HotKind::kMemory;
template <>
inline constexpr HotKind kKindOf<schema::CounterRow> = HotKind::kCounter;
template <>
inline constexpr HotKind kKindOf<GpuWorkRecord> = HotKind::kGpuWork;
template <>
inline constexpr HotKind kKindOf<NcclRecord> = HotKind::kNccl;
template <>
inline constexpr HotKind kKindOf<schema::EventEdgeRow> = HotKind::kEventEdge;
template <>
inline constexpr HotKind kKindOf<schema::MemorySegmentRow> = HotKind::kMemorySegment;
template <>
inline constexpr HotKind kKindOf<schema::AllocationRow> = HotKind::kAllocation;

// Made some time after what they tell of, perhaps on another thread: the window that is in force
// then is not theirs.
template <typename T>
inline constexpr bool kComesLate =
    kKindOf<T> == HotKind::kSpan || kKindOf<T> == HotKind::kGpuWork ||
    kKindOf<T> == HotKind::kNccl || kKindOf<T> == HotKind::kEventEdge ||
    kKindOf<T> == HotKind::kMemorySegment || kKindOf<T> == HotKind::kAllocation;

// One ring that its thread makes on first use and the writer sees from then on.
template <typename T>
class LazyRing {
 public:
  // Producer. What is pushed by nobody costs no memory.
  SpscRing<T>& Make(size_t capacity) {
    if (!owned_) {
      owned_ = std::make_unique<SpscRing<T>>(capacity);
      published_.store(owned_.get(), std::memory_order_release);
    }
    return *owned_;
  }
  // Consumer; null if nothing was pushed yet.
  SpscRing<T>* Get() const { return published_.load(std::memory_order_acquire); }

 private:
  std::unique_ptr<SpscRing<T>> owned_;
  std::atomic<SpscRing<T>*> published_ = nullptr;
};

struct ThreadRings {
  std::tuple<LazyRing<OpRecord>, LazyRing<schema::StepRow>, LazyRing<schema::SpanRow>,
             LazyRing<schema::MemoryEventRow>, LazyRing<schema::CounterRow>,
             LazyRing<GpuWorkRecord>, LazyRing<NcclRecord>, LazyRing<schema::EventEdgeRow>,
             LazyRing<schema::MemorySegmentRow>, LazyRing<schema::AllocationRow>>
      rings;
  // Records that this thread lost because a ring was full.
  std::array<std::atomic<int64_t>, kNumHotKinds> dropped = {};
};

}  // namespace shardscope::record
