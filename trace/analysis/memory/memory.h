// Peaks of memory by category. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

using CategoryBytes =
    std::array<int64_t, query::kNumMemoryCategories>;  // indexed by query::MemoryCategory

enum class Ledger : uint8_t { kIssue, kExecution };

struct MemoryPeak {
  int32_t rank = 0;
  int64_t peak_bytes = 0;  // of the total, execution ledger
  int64_t peak_time_ns = 0;
  CategoryBytes at_peak{};  // what was live at that moment; sums to peak_bytes
  CategoryBytes peak_of{};  // each category's own peak
  // Most that the process held from the GPU's driver, and most of that GPU in use by whomever; 0 if
  // the trace does not say.
  int64_t driver_peak_bytes = 0;
  int64_t device_peak_bytes = 0;
};
std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot,
                                    Ledger ledger = Ledger::kExecution);

}  // namespace shardscope::analysis
