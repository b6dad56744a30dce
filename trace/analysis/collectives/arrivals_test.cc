#include "trace/analysis/collectives/arrivals.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

TEST(Arrivals, AreInTheOrderInWhichRanksCame) {
  TestSnapshot test(4);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  for (int32_t rank = 0; rank < 4; ++rank) test.Run(rank, 0, gather, 0, 10);
  const query::OpRunId last = test.Run(0, 1, gather, 400, 500).id;
  test.Run(1, 1, gather, 150, 500);
  test.Run(2, 1, gather, 100, 500);
  test.Run(3, 1, gather, 150, 500);
  const query::SnapshotPtr snapshot = test.Build();
  for (const CollectiveRun& run : Collectives(*snapshot, 1, 1)) {
    const std::vector<Arrival> arrivals = ArrivalsOf(*snapshot, run);
    ASSERT_EQ(arrivals.size(), 4u);
    EXPECT_EQ(arrivals[0].rank, 2);
    EXPECT_EQ(arrivals[0].after_first_ns, 0);
    EXPECT_EQ(arrivals[1].rank, 1);
    EXPECT_EQ(arrivals[1].after_first_ns, 50);
    EXPECT_EQ(arrivals[2].rank, 3);
    EXPECT_EQ(arrivals[2].after_first_ns, 50);
    EXPECT_EQ(arrivals[3].rank, 0);
    EXPECT_EQ(arrivals[3].after_first_ns, 300);
    EXPECT_EQ(arrivals[3].op_run, last);
  }
}

TEST(Arrivals, AreInTheReportOfCollectivesAlone) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(3, 8, 4);
  const auto json =
      nlohmann::json::parse(PrintReportJson(MakeReport(*snapshot, {.collectives = true})));
  ASSERT_FALSE(json["collectives"].empty());
  for (const auto& run : json["collectives"]) {
    const auto& arrivals = run["arrivals"];
    ASSERT_EQ(arrivals.size(), 3u);
    EXPECT_EQ(arrivals[0]["after_first_ns"], 0);
    // Ranks that come last together count as the smallest.
    size_t last = 2;
    while (last > 0 && arrivals[last - 1]["after_first_ns"] == arrivals[last]["after_first_ns"])
      --last;
    EXPECT_EQ(arrivals[last]["rank"], run["last_rank"]);
  }
  const auto without = nlohmann::json::parse(PrintReportJson(MakeReport(*snapshot)));
  EXPECT_FALSE(without["collectives"][0].contains("arrivals"));
}

}  // namespace
}  // namespace shardscope::analysis
