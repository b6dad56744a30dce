#include "trace/analysis/checkpoints.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two ranks; before step 2 a whole checkpoint, before step 4 one that rank 1 could not write, and
// at the end, before step 5, one that is not whole yet.
query::SnapshotPtr WithCheckpoints() {
  TestSnapshot test(2);
  for (int32_t rank = 0; rank < 2; ++rank) {
    for (int32_t step = 0; step < 5; ++step) {
      test.Step(rank, step, step * 1000, step * 1000 + 1000);
    }
  }
  query::Snapshot& snapshot = test.snapshot();
  snapshot.ranks[0].checkpoints = {{2, 2000, 2000, 2030, 2300, 100, ""},
                                   {4, 4000, 4010, 4020, 4400, 100, ""},
                                   {5, 5000, 5000, 5030, 5200, 100, ""}};
  snapshot.ranks[1].checkpoints = {{2, 2010, 2010, 2050, 2500, 60, ""},
                                   {4, 4000, 4300, 4310, 4390, 0, "no space left"}};
  snapshot.markers.push_back({2600, 2, "checkpoint", "", "", "/runs/a/checkpoints/step-2"});
  return test.Build();
}

TEST(Checkpoints, AreOfAllRanks) {
  const std::vector<CheckpointFigures> all = CheckpointsOf(*WithCheckpoints());
  ASSERT_EQ(all.size(), 3u);
  EXPECT_EQ(all[0].step, 2);
  EXPECT_EQ(all[0].num_ranks, 2);
  EXPECT_EQ(all[0].bytes, 160);
  EXPECT_EQ(all[0].wait_ns, 0);
  EXPECT_EQ(all[0].copy_ns, 40) << "of the slowest rank";
  EXPECT_EQ(all[0].write_ns, 2600 - 2050) << "from the last copy to the marker";
  EXPECT_TRUE(all[0].is_whole);
  EXPECT_EQ(all[0].folder, "/runs/a/checkpoints/step-2");

  EXPECT_FALSE(all[1].is_whole);
  EXPECT_EQ(all[1].error, "no space left");
  EXPECT_EQ(all[1].wait_ns, 300);
  EXPECT_EQ(all[1].bytes, 100);

  EXPECT_FALSE(all[2].is_whole);
  EXPECT_EQ(all[2].num_ranks, 1);
}

// A paused run may be asked for one more of the same step.
TEST(Checkpoints, OfOneStepAreTwo) {
  TestSnapshot test(1);
  query::Snapshot& snapshot = test.snapshot();
  snapshot.ranks[0].checkpoints = {{2, 0, 0, 1, 10, 5, ""}, {2, 20, 20, 21, 30, 5, ""}};
  snapshot.markers.push_back({32, 2, "checkpoint", "", "", "second"});
  const std::vector<CheckpointFigures> all = CheckpointsOf(*test.Build());
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].is_whole) << "the marker is the second one's";
  EXPECT_TRUE(all[1].is_whole);
  EXPECT_EQ(all[1].folder, "second");
}

TEST(Checkpoints, StandInTheReport) {
  const query::SnapshotPtr snapshot = WithCheckpoints();
  const Report report = MakeReport(*snapshot, {.scope = Scope{.kind = ScopeKind::kWholeRun}});
  EXPECT_EQ(report.checkpoints.size(), 3u) << "the last is behind the last step";
  const std::string text = PrintReportText(report);
  // 40 + 310 + 30 ns of five steps of 1000 ns.
  EXPECT_THAT(text, HasSubstr("Checkpoints: 1 of 3 whole, 160 B written; the training waited 380 "
                              "ns for them, 76 ns a step (7.6% of it)"));
  EXPECT_THAT(text, HasSubstr("lost: no space left"));
  EXPECT_THAT(text, HasSubstr("not whole"));
  EXPECT_THAT(text, Not(HasSubstr("Goes on from")));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report));
  ASSERT_EQ(json["checkpoints"].size(), 3u);
  EXPECT_EQ(json["checkpoints"][0]["copy_ns"], 40);
  EXPECT_EQ(json["checkpoints"][1]["whole"], false);
  EXPECT_TRUE(json["resumed"].is_null());
}

TEST(Checkpoints, OfARunWithoutAnyAreNotSpokenOf) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 10);
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build())), Not(HasSubstr("Checkpoints")));
}

TEST(Checkpoints, NameTheRunThatItGoesOnFrom) {
  TestSnapshot test(1);
  test.Step(0, 7, 0, 10);
  test.snapshot().meta = {{"resumed_run", "a-17c"},
                          {"resumed_step", "7"},
                          {"resumed_from", "/runs/a/checkpoints/step-7"}};
  const Report report = MakeReport(*test.Build());
  EXPECT_THAT(PrintReportText(report),
              HasSubstr("Goes on from run a-17c with step 7 (/runs/a/checkpoints/step-7)\n"));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(report));
  EXPECT_EQ(json["resumed"]["run_id"], "a-17c");
  EXPECT_EQ(json["resumed"]["step"], 7);

  test.snapshot().meta["resumed_step"] = "seven";  // damaged
  EXPECT_FALSE(ResumedFromOf(*test.Build()).has_value());
}

}  // namespace
}  // namespace shardscope::analysis
