// What recording costs: rounds, ranks, and what of it a report says.
#include "trace/analysis/gpu/recording.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/analysis/report/report.h"

namespace shardscope::analysis {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// A round of 110 and 130 with, and `without_ns` without; rank 1 is a little faster.
void AddRound(query::Snapshot* snapshot, int32_t round, int64_t without_ns) {
  for (const int32_t rank : {0, 1}) {
    snapshot->overhead_steps.push_back({round, rank, 8 * round, true, 110 - rank});
    snapshot->overhead_steps.push_back({round, rank, 8 * round + 1, false, without_ns - rank});
    snapshot->overhead_steps.push_back({round, rank, 8 * round + 3, true, 130 - rank});
  }
}

TEST(Overhead, IsTheMedianOfRoundsAndOfTheSlowestRank) {
  query::Snapshot snapshot;
  AddRound(&snapshot, 0, 100);
  AddRound(&snapshot, 1, 80);
  AddRound(&snapshot, 2, 200);
  const Overhead overhead = MeasureOverhead(snapshot);
  EXPECT_EQ(overhead.rounds, 3);
  EXPECT_DOUBLE_EQ(overhead.ratio, 1.2);
  EXPECT_DOUBLE_EQ(overhead.lowest, 0.6);
  EXPECT_DOUBLE_EQ(overhead.highest, 1.5);
  EXPECT_EQ(overhead.recorded_ns, 120);
  EXPECT_EQ(overhead.unrecorded_ns, 100);
  EXPECT_THAT(overhead.left_out, ElementsAre(1, 9, 17));
  AddRound(&snapshot, 3, 60);
  EXPECT_DOUBLE_EQ(MeasureOverhead(snapshot).ratio, (1.2 + 1.5) / 2);
}

TEST(Overhead, ARoundWithoutItsOtherSideIsNoComparison) {
  query::Snapshot snapshot;
  EXPECT_EQ(PrintOverhead(MeasureOverhead(snapshot)), "");
  snapshot.overhead_steps = {{0, 0, 4, false, 100}, {1, 0, 11, true, 100}};
  const Overhead overhead = MeasureOverhead(snapshot);
  EXPECT_EQ(overhead.rounds, 0);
  EXPECT_EQ(Describe(overhead), "");
  // The step is missing all the same.
  EXPECT_THAT(PrintOverhead(overhead), HasSubstr("not recorded for that: step 4\n"));
}

TEST(Overhead, IsPartOfTheReport) {
  query::Snapshot snapshot;
  EXPECT_THAT(PrintReportText(MakeReport(snapshot)), Not(HasSubstr("What recording costs")));
  EXPECT_THAT(PrintReportJson(MakeReport(snapshot)), HasSubstr("\"overhead\": null"));
  AddRound(&snapshot, 0, 100);
  const Report report = MakeReport(snapshot);
  EXPECT_THAT(PrintReportText(report),
              HasSubstr("What recording costs\n  a recorded step takes 1.200 of the time of one "
                        "that is not (1.200 to 1.200 in 1 round; 120 ns and 100 ns)\n"
                        "  not recorded for that: step 1\n"));
  EXPECT_THAT(PrintReportJson(report), HasSubstr("\"ratio\": 1.2"));
}

}  // namespace
}  // namespace shardscope::analysis
