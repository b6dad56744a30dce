#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/steps/stalls.h"

#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/rank_step.h"

namespace shardscope::analysis {
namespace {

class TwoRanks : public ::testing::Test {
 protected:
  TwoRanks() {
    test_.op(gather_).payload_bytes = 2000;
    test_.op(gather_).wire_bytes = 1000;
  }
  TestSnapshot test_{2};
  query::PlanOpId gather_ = test_.Plan("all_gather", "forward", "block0");
};

TEST_F(TwoRanks, SplitAtTheLastArrival) {
  test_.Run(0, 0, gather_, 100, 600);
  test_.Run(1, 0, gather_, 350, 600);
  const std::vector<CollectiveRun> runs = Collectives(*test_.Build(), 0, 0);
  ASSERT_EQ(runs.size(), 2u);
  EXPECT_EQ(runs[0].name, "F m0 block0 all_gather");
  EXPECT_EQ(runs[0].rank, 0);
  EXPECT_EQ(runs[0].wait_ns, 250);
  EXPECT_EQ(runs[0].transfer_ns, 250);
  EXPECT_EQ(runs[1].wait_ns, 0);
  EXPECT_EQ(runs[1].transfer_ns, 250);
  for (const CollectiveRun& run : runs) {
    EXPECT_EQ(run.last_rank, 1);
    EXPECT_EQ(run.last_arrival_ns, 350);
    EXPECT_TRUE(run.complete);
    EXPECT_DOUBLE_EQ(run.bus_bandwidth, 1000 / 250e-9);
  }
}

TEST_F(TwoRanks, MatchedBySequenceNotByTime) {
  test_.Run(0, 0, gather_, 0, 90);
  test_.Run(0, 1, gather_, 100, 200);
  test_.Run(1, 0, gather_, 80, 90);
  test_.Run(1, 1, gather_, 95, 200);
  const std::vector<CollectiveRun> runs = Collectives(*test_.Build(), 0, 1);
  ASSERT_EQ(runs.size(), 4u);
  EXPECT_EQ(runs[0].last_rank, 1);
  EXPECT_EQ(runs[0].wait_ns, 80);
  EXPECT_EQ(runs[1].last_rank, 0);
  EXPECT_EQ(runs[1].wait_ns, 0);
  EXPECT_EQ(Collectives(*test_.Build(), 1, 1).size(), 2u);
}

TEST_F(TwoRanks, AMissingRankIsSaid) {
  test_.Run(0, 0, gather_, 100, 600);
  const std::vector<CollectiveRun> runs = Collectives(*test_.Build(), 0, 0);
  ASSERT_EQ(runs.size(), 1u);
  EXPECT_FALSE(runs[0].complete);
  EXPECT_EQ(runs[0].wait_ns, 0);  // a lower bound
  EXPECT_EQ(runs[0].transfer_ns, 500);
}

TEST_F(TwoRanks, ClocksThatDisagreeKeepTheSum) {
  test_.Run(0, 0, gather_, 100, 600);
  test_.Run(1, 0, gather_, 700, 900);  // arrived, by its clock, after rank 0 was done
  const std::vector<CollectiveRun> runs = Collectives(*test_.Build(), 0, 0);
  EXPECT_EQ(runs[0].wait_ns, 500);
  EXPECT_EQ(runs[0].transfer_ns, 0);
  EXPECT_EQ(runs[0].bus_bandwidth, 0);
}

TEST_F(TwoRanks, TheOtherRankIsTheSmallestThatIsInItToo) {
  test_.Run(0, 0, gather_, 100, 600);
  test_.Run(1, 0, gather_, 350, 600);
  const query::SnapshotPtr snapshot = test_.Build();
  const std::vector<CollectiveRun> runs = Collectives(*snapshot, 0, 0);
  EXPECT_EQ(runs.at(0).other_rank, 1);
  EXPECT_EQ(runs.at(1).other_rank, 0);
  for (const CollectiveRun& run : runs) EXPECT_EQ(run.last_op_run, runs[1].op_run);
}

TEST(RankStep, HasWhatAllRanksGiveOfIt) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(3, 4, 4);
  size_t num_stalls = 0;
  for (int32_t step = 0; step < 4; ++step) {
    std::vector<Stall> stalls = Stalls(*snapshot, step, step);
    std::vector<CollectiveRun> collectives = Collectives(*snapshot, step, step);
    for (int32_t rank = 0; rank < 3; ++rank) {
      RankStep of_rank = RankStepOf(*snapshot, rank, step);
      for (const Stall& stall : stalls) {
        if (stall.rank != rank) continue;
        ASSERT_FALSE(of_rank.stalls.empty());
        const Stall& same = of_rank.stalls.front();
        EXPECT_EQ(same.op_run, stall.op_run);
        EXPECT_EQ(same.start_ns, stall.start_ns);
        EXPECT_EQ(same.end_ns, stall.end_ns);
        EXPECT_EQ(same.blocking_op_run, stall.blocking_op_run);
        EXPECT_EQ(same.sentence, stall.sentence);
        of_rank.stalls.erase(of_rank.stalls.begin());
        ++num_stalls;
      }
      EXPECT_TRUE(of_rank.stalls.empty());
      for (const CollectiveRun& run : collectives) {
        if (run.rank != rank) continue;
        ASSERT_FALSE(of_rank.collectives.empty());
        const CollectiveRun& same = of_rank.collectives.front();
        EXPECT_EQ(same.op_run, run.op_run);
        EXPECT_EQ(same.last_arrival_ns, run.last_arrival_ns);
        EXPECT_EQ(same.wait_ns, run.wait_ns);
        EXPECT_EQ(same.name, run.name);
        of_rank.collectives.erase(of_rank.collectives.begin());
      }
      EXPECT_TRUE(of_rank.collectives.empty());
    }
  }
  EXPECT_GT(num_stalls, 0U);
}

}  // namespace
}  // namespace shardscope::analysis
