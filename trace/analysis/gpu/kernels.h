// Figures of the GPU's own rows: how many kernels and copies, how many of them an op launched, and
// how communication overlapped with compute by their times. Pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Of one rank, over interval unions as StepBreakdown; or, added up, of all ranks.
struct KernelSummary {
  int64_t kernels = 0;
  int64_t copies = 0;         // and memsets
  int64_t joined = 0;         // of both: those that an op launched
  int64_t without_times = 0;  // CUPTI lost them, or they had not ended; in no time below
  int64_t compute_ns = 0;
  int64_t communication_ns = 0;
  int64_t copy_ns = 0;
  int64_t overlap_ns = 0;  // communication and compute at once
  // Pairs of a communication and a compute kernel that ran at the same time.
  int64_t overlapping_pairs = 0;
  int64_t overhead_ns = 0;  // the tracer's own, as CUPTI reports it; union per rank
  int num_ranks = 0;        // with such rows

  int64_t exposed_ns() const { return communication_ns - overlap_ns; }
  double overlap_ratio() const {
    if (communication_ns <= 0) return 0;
    return static_cast<double>(overlap_ns) / static_cast<double>(communication_ns);
  }
  double join_rate() const {
    const int64_t all = kernels + copies;
    return all == 0 ? 0 : static_cast<double>(joined) / static_cast<double>(all);
  }
};

// Sums over the ranks.
KernelSummary SummarizeKernels(const query::Snapshot& snapshot);

// The section of a report; empty without such rows.
std::string PrintKernels(const KernelSummary& summary);

}  // namespace shardscope::analysis
