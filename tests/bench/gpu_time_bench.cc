// What HolisticTraceAnalysis' figures cost once a run is loaded: gpu_time_bench RUN prints JSON,
// milliseconds of MeasureGpu() by definition, the median of nine.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>

#include "trace/analysis/gpu/gpu_time.h"
#include "trace/query/live_trace.h"

namespace shardscope::analysis {
namespace {

double MedianMs(const query::Snapshot& snapshot, GpuDefinition definition) {
  using Clock = std::chrono::steady_clock;
  std::array<double, 9> times{};
  for (double& time_ms : times) {
    const Clock::time_point start = Clock::now();
    const GpuTime gpu = MeasureGpu(snapshot, definition);
    time_ms = std::chrono::duration<double, std::milli>(Clock::now() - start).count();
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

int Run(const char* run) {
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) {
    fmt::print(stderr, "gpu_time_bench: {}\n", snapshot.message());
    return 1;
  }
  size_t work = 0;
  for (const query::RankRows& rows : (*snapshot)->ranks) work += rows.gpu_work.size();
  fmt::print("{{\"gpu_work\": {}, \"hta_ms\": {:.3f}, \"exact_ms\": {:.3f}}}\n", work,
             MedianMs(**snapshot, GpuDefinition::kHta),
             MedianMs(**snapshot, GpuDefinition::kExact));
  return 0;
}

}  // namespace
}  // namespace shardscope::analysis

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: gpu_time_bench RUN (a folder that `shardscope import` made)\n");
    return 2;
  }
  return shardscope::analysis::Run(argv[1]);
}
