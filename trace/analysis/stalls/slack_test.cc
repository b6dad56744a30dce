#include <gtest/gtest.h>

#include "trace/analysis/collectives.h"
#include "trace/analysis/test_snapshot.h"

namespace shardscope::analysis {
namespace {

// FSDP2's backward: the gather of block1 is issued before block2 computes, its copy-out stands on
// the compute stream in front of block1's first op; that wait is the only listed edge.
class SlackTest : public ::testing::Test {
 protected:
  TestSnapshot test_{1};
  int64_t gather_ = test_.Plan("all_gather", "backward", "block1");
  int64_t compute_b2_ = test_.Plan("backward", "backward", "", "block2.mlp");
  int64_t copy_in_b2_ = test_.Plan("copy_in", "backward", "block2");
  int64_t copy_out_ = test_.Plan("copy_out", "backward", "block1", "", {gather_});
  int64_t compute_b1_ = test_.Plan("backward", "backward", "", "block1.mlp");
};

TEST_F(SlackTest, PositiveWhenDoneBeforeItsUse) {
  const int64_t gather = test_.Run(0, 0, gather_, 0, 40).id;
  test_.Run(0, 0, compute_b2_, 0, 90);
  test_.Run(0, 0, copy_in_b2_, 90, 95);
  test_.Run(0, 0, copy_out_, 95, 100);
  const int64_t use = test_.Run(0, 0, compute_b1_, 100, 150).id;
  const PrefetchSlack slack = SlackOf(*test_.Build(), gather, 0);
  ASSERT_TRUE(slack.found);
  EXPECT_EQ(slack.first_use_op_run, use);
  EXPECT_EQ(slack.first_use_name, "B m0 block1.mlp backward");
  EXPECT_EQ(slack.first_use_ns, 100);
  EXPECT_EQ(slack.slack_ns, 60);
}

TEST_F(SlackTest, NegativeByWhatTheComputeStreamWaited) {
  const int64_t gather = test_.Run(0, 0, gather_, 0, 140).id;
  test_.Run(0, 0, compute_b2_, 0, 90);
  test_.Run(0, 0, copy_in_b2_, 90, 95);
  test_.Run(0, 0, copy_out_, 140, 145).issued_ns = 2;
  test_.Run(0, 0, compute_b1_, 145, 200).issued_ns = 3;
  const PrefetchSlack slack = SlackOf(*test_.Build(), gather, 0);
  ASSERT_TRUE(slack.found);
  EXPECT_EQ(slack.first_use_ns, 95);  // the stream ran dry
  EXPECT_EQ(slack.slack_ns, -45);
}

TEST_F(SlackTest, AWaitForTheWholeStreamPrefersTheUnitsOwnOp) {
  // FSDP1: the next unit's gather is already on the stream that block2's op waits for.
  TestSnapshot test(1);
  const int64_t gather_b2 = test.Plan("all_gather", "backward", "block2");
  const int64_t gather_b1 = test.Plan("all_gather", "backward", "block1");
  const int64_t wait = test.Plan("release", "backward", "block2", "", {gather_b1});
  const int64_t compute_b2 = test.Plan("backward", "backward", "", "block2.mlp");
  const int64_t compute_b1 = test.Plan("backward", "backward", "", "block1.mlp");
  const int64_t run_b2 = test.Run(0, 0, gather_b2, 0, 10).id;
  const int64_t run_b1 = test.Run(0, 0, gather_b1, 10, 20).id;
  test.Run(0, 0, wait, 20, 20);
  test.Run(0, 0, compute_b2, 20, 50);
  test.Run(0, 0, compute_b1, 50, 80);
  const query::SnapshotPtr snapshot = test.Build();
  EXPECT_EQ(SlackOf(*snapshot, run_b1, 0).first_use_name, "B m0 block1.mlp backward");
  EXPECT_EQ(SlackOf(*snapshot, run_b2, 0).first_use_name, "B m0 block2.mlp backward");
}

TEST_F(SlackTest, NothingToSay) {
  const int64_t gather = test_.Run(0, 0, gather_, 0, 40).id;
  const int64_t compute = test_.Run(0, 0, compute_b2_, 0, 90).id;
  EXPECT_FALSE(SlackOf(*test_.Build(), gather, 0).found);   // its use has not run yet
  EXPECT_FALSE(SlackOf(*test_.Build(), compute, 0).found);  // no all-gather
  EXPECT_FALSE(SlackOf(*test_.Build(), 99, 0).found);
  EXPECT_FALSE(SlackOf(*test_.Build(), gather, 5).found);
}

}  // namespace
}  // namespace shardscope::analysis
