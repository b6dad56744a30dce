// Within what the times of GPUs are right, as sentences of a report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/analysis/gpu/recording.h"
#include "trace/analysis/report/report.h"

namespace shardscope::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(GpuClock, BoundsOfAllReadingsAreCut) {
  query::Snapshot snapshot;
  snapshot.gpu_clocks = {{1, 0, "cupti", 1, -4'000, 9'000},
                         {0, 0, "cupti", 1, -5'000, 7'000},
                         {1, 0, "cupti", 2, -3'000, 12'000},
                         {1, 0, "events", 2, -100, 100}};
  const std::vector<GpuClockBounds> clocks = BoundGpuClocks(snapshot);
  ASSERT_EQ(clocks.size(), 3u);
  EXPECT_EQ(clocks[0].rank, 0);
  EXPECT_EQ(clocks[0].uncertainty_ns(), 7'000);
  EXPECT_EQ(clocks[1].low_ns, -3'000);
  EXPECT_EQ(clocks[1].high_ns, 9'000);
  EXPECT_EQ(clocks[1].readings, 2);
  EXPECT_EQ(clocks[2].method, "events");
  EXPECT_THAT(Describe(clocks[1]), HasSubstr("right within 9.00 us"));
  EXPECT_THAT(Describe(clocks[1]), HasSubstr("(-3.00 us to +9.00 us, 2 readings)"));
}

TEST(GpuClock, ImpossibleTimesAreSaid) {
  EXPECT_THAT(Describe({0, 0, "cupti", 2'000, 9'000, 1}), HasSubstr("OFF by up to 9.00 us"));
  EXPECT_THAT(Describe({0, 0, "cupti", -9'000, -2'000, 1}), HasSubstr("OFF by up to 9.00 us"));
  const GpuClockBounds drifting{0, 0, "cupti", 2'000, -1'000, 5};
  EXPECT_TRUE(drifting.drifts());
  EXPECT_THAT(Describe(drifting), HasSubstr("drifts against the host's"));
}

TEST(GpuClock, IsPartOfTheReport) {
  query::Snapshot snapshot;
  EXPECT_THAT(PrintReportText(MakeReport(snapshot)), Not(HasSubstr("Clocks of GPUs")));
  snapshot.gpu_clocks.push_back({.method = "cupti", .low_ns = -1, .high_ns = 3});
  const Report report = MakeReport(snapshot);
  EXPECT_THAT(PrintReportText(report), HasSubstr("Clocks of GPUs\n  GPU 0 of rank 0 (CUPTI)"));
  EXPECT_THAT(PrintReportJson(report), HasSubstr("\"uncertainty_ns\": 3"));
}

}  // namespace
}  // namespace shardscope::analysis
