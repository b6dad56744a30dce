#include "trace/analysis/collectives.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

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

}  // namespace
}  // namespace shardscope::analysis
