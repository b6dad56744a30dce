// Peaks of memory by category. Pure functions.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
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
  std::array<int64_t, query::kNumMemoryCategories> peak_of_time_ns{};
  std::map<int64_t, int64_t> of_schedule;  // by its id: highest total in its finished steps
  // Most that the process held from the GPU's driver, and most of that GPU in use by whomever; 0 if
  // the trace does not say.
  int64_t driver_peak_bytes = 0;
  int64_t device_peak_bytes = 0;
};
std::vector<MemoryPeak> MemoryPeaks(const query::Snapshot& snapshot,
                                    Ledger ledger = Ledger::kExecution);

// Of the finished steps [first, last]: of each rank from the start of its first to the end of its
// last, with what was live before; all 0 where a rank has none.
std::vector<MemoryPeak> MemoryPeaksOfSteps(const query::Snapshot& snapshot, int32_t first,
                                           int32_t last);

// A Schedule that ran: what it was predicted to take, and what it took.
struct ScheduleMemory {
  std::string name;
  std::vector<std::pair<int, int>> steps;  // first and last of each stretch
  int64_t predicted_bytes = 0;             // peak in issue order, without temporaries
  int64_t bound_bytes = 0;                 // of the executed peak; 0: not known
  int64_t peak_bytes = 0;  // executed, of the rank that took most; 0: no memory rows
  int32_t peak_rank = 0;
};
// Of the finished steps, in order of the first. `peaks`: MemoryPeaks(snapshot).
std::vector<ScheduleMemory> MemoryOfSchedules(const query::Snapshot& snapshot,
                                              const std::vector<MemoryPeak>& peaks);

}  // namespace shardscope::analysis
