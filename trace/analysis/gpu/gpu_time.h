// Times of the GPU by its own rows, in the definitions of HolisticTraceAnalysis or in exact ones.
// Pure functions; any thread.
//
// HTA 0.5.0 (hta/analyzers/{breakdown_analysis,communication_analysis,trace_counters}.py,
// hta/utils/utils.py, hta/common/{trace,trace_parser,trace_filter}.py) counts in whole
// microseconds: starts are rounded up, ends down, so that short kernels may have a negative length;
// it tells kinds of kernels by their names, counts waits of streams as work, and leaves out what
// was launched in the last of several steps. The exact definition takes nanoseconds, all rows, and
// the categories of the trace.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

enum class GpuDefinition : uint8_t { kExact, kHta };
// "exact", "hta"
std::string_view Name(GpuDefinition definition);
std::optional<GpuDefinition> ParseGpuDefinition(std::string_view text);

// Of one rank; of HTA's, microseconds times 1000.
struct GpuRankTime {
  int32_t rank = 0;
  int64_t kernel_time_ns = 0;  // from the first start to the last end
  int64_t idle_ns = 0;         // of that, without anything on any stream
  int64_t compute_ns = 0;      // union
  int64_t non_compute_ns = 0;  // kernel time without the two above
  int64_t communication_ns = 0;
  int64_t overlap_ns = 0;  // communication and compute at once
  int64_t exposed_ns = 0;  // communication without that
};

struct GpuStepTime {
  int32_t step = 0;
  std::vector<GpuRankTime> ranks;
};

// Time in which exactly these kinds ran, summed over ranks: "COMPUTATION", "COMMUNICATION",
// "MEMORY", "COMPUTATION overlapping COMMUNICATION", ...
struct GpuTypeTime {
  std::string type;
  int64_t sum_ns = 0;
};

// What pandas calls describe(): `std` is that of a sample, 0 for one value; quartiles lie between
// the two nearest values.
struct GpuDistribution {
  int64_t count = 0;
  double mean = 0;
  double std = 0;
  double min = 0;
  double p25 = 0;
  double p50 = 0;
  double p75 = 0;
  double max = 0;
};

struct GpuKernelTime {
  std::string name;
  std::string type;  // as above, or "OTHER"
  int32_t rank = 0;
  int64_t count = 0;
  int64_t sum_ns = 0;
  int64_t min_ns = 0;
  int64_t max_ns = 0;
  double mean_ns = 0;
  double std_ns = 0;  // of a sample; 0 for one
};

// Gaps between what a stream did: its next work was launched only when it had run dry (host), or
// came less than 30 us later (kernel), or neither.
struct GpuIdleTime {
  int32_t rank = 0;
  int64_t stream = 0;
  int64_t host_wait_ns = 0;
  int64_t kernel_wait_ns = 0;
  int64_t other_ns = 0;
};

// How much of a stream was launched and had not begun, after each launch and each start.
struct GpuQueueLength {
  int32_t rank = 0;
  int64_t stream = 0;
  GpuDistribution length;
};

// Exact: of each copy, its bytes over its length. HTA's: of all copies of a kind at once, whenever
// that changes and is not 0; copies of less than 1 us take 1 us.
struct GpuBandwidth {
  int32_t rank = 0;
  std::string kind;  // "Memcpy HtoD", "Memset"
  int64_t count = 0;
  int64_t bytes = 0;
  int64_t time_ns = 0;
  GpuDistribution bytes_per_second;
};

struct GpuTime {
  GpuDefinition definition = GpuDefinition::kExact;
  std::vector<GpuRankTime> ranks;  // empty: no rows of a GPU
  std::vector<GpuStepTime> steps;
  std::vector<GpuTypeTime> types;      // longest first
  std::vector<GpuKernelTime> kernels;  // likewise, by rank and name
  std::vector<GpuIdleTime> idle;
  std::vector<GpuQueueLength> queues;
  std::vector<GpuBandwidth> bandwidths;
};

GpuTime MeasureGpu(const query::Snapshot& snapshot, GpuDefinition definition);

// A line for each rank; empty without rows of a GPU.
std::string PrintGpuTime(const GpuTime& gpu);

}  // namespace shardscope::analysis
