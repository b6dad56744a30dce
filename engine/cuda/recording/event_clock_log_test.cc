// Bounds of the times of CUDA events: which become rows.
#include "engine/cuda/recording/event_clock_log.h"

#include <gtest/gtest.h>

#include <string>

#include "trace/base/time.h"
#include "trace/record/keeping_recorder_test_util.h"

namespace shardscope::cuda {
namespace {

TEST(EventClockLog, LeavesARowASecondAndRank) {
  record::KeepingRecorder recorder;
  const auto& gpu_clocks = recorder.Rare<schema::GpuClockRow>();
  EventClockLog log;
  log.Add(0, 0, 1, 100);  // the trace is not open
  log.SetRecorder(&recorder);
  for (int64_t step = 0; step < 21; ++step) {
    for (const int rank : {0, 3}) log.Add(rank, rank + 1, 5 + step * kNsPerSecond / 10, 700 + step);
  }
  log.SetRecorder(nullptr);
  log.Add(0, 0, 100 * kNsPerSecond, 100);
  ASSERT_EQ(gpu_clocks.size(), 6U);
  for (const schema::GpuClockRow& row : gpu_clocks) {
    EXPECT_EQ(row.device, row.rank + 1);
    EXPECT_EQ(row.method, "events");
    EXPECT_EQ(row.low_ns, -row.high_ns);
    EXPECT_EQ(row.high_ns, 700 + (row.time_ns - 5) / (kNsPerSecond / 10));
  }
  EXPECT_EQ(gpu_clocks[2].time_ns - gpu_clocks[0].time_ns, kNsPerSecond);
}

}  // namespace
}  // namespace shardscope::cuda
