// What a Schedule will take, before it runs: in the issue ledger (allocations and frees in host
// order, as an allocator reports it), and at most when its ops run.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// Bytes on one rank. The peaks need not coincide in time. What is in the host's memory is in no
// total.
struct MemoryPeak {
  int64_t total = 0;
  std::array<int64_t, kNumMemoryCategories> by_category{};  // by MemoryCategory
  int64_t transient = 0;  // unsharded parameters and communication buffers together
};

MemoryPeak PredictPeak(const Schedule& schedule, int rank);

// The totals of each program's ranks.
std::vector<int64_t> PredictPeaks(const Schedule& schedule);

// The total of the rank that needs most.
int64_t PredictLargestPeak(const Schedule& schedule);

// What a device takes beside the buffers of a Schedule. Without a function: nothing.
struct Unlisted {
  std::function<int64_t(const Op&)> temporary_bytes;   // of an op, while it runs
  std::function<int64_t(const Buffer&)> beside_bytes;  // of a buffer, as long as it is there
};

// Of each program's ranks: the most that can be live at once on a rank when ops run, each from its
// start to its end. The largest over all orders that streams, waits and the host allow, however
// long ops take. One of these orders needs it; never less than the total of PredictPeak().
std::vector<int64_t> BoundPeaks(const Schedule& schedule, const Unlisted& unlisted);

// What is live at a moment of that most, of one category and unit, or of a segment where it is no
// unit's.
struct LiveBytes {
  MemoryCategory category = MemoryCategory::kOther;
  int32_t unit = kNone;
  int32_t segment = kNone;
  int64_t bytes = 0;
};

struct PeakMoment {
  int rank = 0;                 // the first of those that run this program
  int64_t total = 0;            // of BoundPeaks()
  OpIndex op = kNone;           // issued last of those that run and hold memory there
  std::vector<LiveBytes> live;  // most first; they add up to the total
  std::array<int64_t, kNumMemoryCategories> by_category{};
};

PeakMoment HeaviestMoment(const Schedule& schedule, int rank, const Unlisted& unlisted);

// Of the rank that needs most.
PeakMoment LargestMoment(const Schedule& schedule, const Unlisted& unlisted);

// The bound of the rank that needs most.
int64_t BoundLargestPeak(const Schedule& schedule, const Unlisted& unlisted);

}  // namespace shardscope::plan
