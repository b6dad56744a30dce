// What a Schedule will take, before it runs: the issue ledger (allocations and frees in host
// order, as an allocator reports it).
#pragma once

#include <array>
#include <cstdint>

#include "engine/plan/schedule.h"

namespace shardscope::plan {

// Bytes on one rank. The peaks need not coincide in time.
struct MemoryPeak {
  int64_t total = 0;
  std::array<int64_t, kNumMemoryCategories> by_category{};  // by MemoryCategory
  int64_t transient = 0;  // unsharded parameters and communication buffers together
};

MemoryPeak PredictPeak(const Schedule& schedule, int rank);

// The total of the rank that needs most.
int64_t PredictLargestPeak(const Schedule& schedule);

}  // namespace shardscope::plan
