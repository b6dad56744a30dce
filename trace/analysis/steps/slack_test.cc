#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/stalls.h"

namespace shardscope::analysis {
namespace {

// FSDP2's backward: the gather of block1 is issued before block2 computes, its copy-out stands on
// the compute stream in front of block1's first op; that wait is the only listed edge.
class SlackTest : public ::testing::Test {
 protected:
  TestSnapshot test_{1};
  query::PlanOpId gather_ = test_.Plan("all_gather", "backward", "block1");
  query::PlanOpId compute_b2_ = test_.Plan("backward", "backward", "", "block2.mlp");
  query::PlanOpId copy_in_b2_ = test_.Plan("copy_in", "backward", "block2");
  query::PlanOpId copy_out_ = test_.Plan("copy_out", "backward", "block1", "", {gather_});
  query::PlanOpId compute_b1_ = test_.Plan("backward", "backward", "", "block1.mlp");
};

TEST_F(SlackTest, PositiveWhenDoneBeforeItsUse) {
  const query::OpRunId gather = test_.Run(0, 0, gather_, 0, 40).id;
  test_.Run(0, 0, compute_b2_, 0, 90);
  test_.Run(0, 0, copy_in_b2_, 90, 95);
  test_.Run(0, 0, copy_out_, 95, 100);
  const query::OpRunId use = test_.Run(0, 0, compute_b1_, 100, 150).id;
  const PrefetchSlack slack = SlackOf(*test_.Build(), gather, 0);
  ASSERT_TRUE(slack.found);
  EXPECT_EQ(slack.first_use_op_run, use);
  EXPECT_EQ(slack.first_use_ns, 100);
  EXPECT_EQ(slack.slack_ns, 60);
}

TEST_F(SlackTest, NegativeByWhatTheComputeStreamWaited) {
  const query::OpRunId gather = test_.Run(0, 0, gather_, 0, 140).id;
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
  const query::PlanOpId gather_b2 = test.Plan("all_gather", "backward", "block2");
  const query::PlanOpId gather_b1 = test.Plan("all_gather", "backward", "block1");
  const query::PlanOpId wait = test.Plan("release", "backward", "block2", "", {gather_b1});
  const query::PlanOpId compute_b2 = test.Plan("backward", "backward", "", "block2.mlp");
  const query::PlanOpId compute_b1 = test.Plan("backward", "backward", "", "block1.mlp");
  const query::OpRunId run_b2 = test.Run(0, 0, gather_b2, 0, 10).id;
  const query::OpRunId run_b1 = test.Run(0, 0, gather_b1, 10, 20).id;
  test.Run(0, 0, wait, 20, 20);
  const query::OpRunId use_b2 = test.Run(0, 0, compute_b2, 20, 50).id;
  const query::OpRunId use_b1 = test.Run(0, 0, compute_b1, 50, 80).id;
  const query::SnapshotPtr snapshot = test.Build();
  EXPECT_EQ(SlackOf(*snapshot, run_b1, 0).first_use_op_run, use_b1);
  EXPECT_EQ(SlackOf(*snapshot, run_b2, 0).first_use_op_run, use_b2);
}

// The root's segments (embedding, head) are not named after it, its optimizer op is.
class RootSlackTest : public ::testing::TestWithParam<const char*> {};

TEST_P(RootSlackTest, FirstUseIsTheSegmentBehindItsUnshard) {
  TestSnapshot test(1);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "root");
  const query::PlanOpId unshard = test.Plan(GetParam(), "forward", "root", "", {gather});
  const query::PlanOpId embedding = test.Plan("forward", "forward", "", "embedding");
  const query::PlanOpId gather_b0 = test.Plan("all_gather", "forward", "block0");
  const query::PlanOpId unshard_b0 = test.Plan(GetParam(), "forward", "block0", "", {gather_b0});
  const query::PlanOpId block0 = test.Plan("forward", "forward", "", "block0.mlp");
  const query::PlanOpId head = test.Plan("forward", "forward", "", "head");
  const query::PlanOpId optimizer = test.Plan("optimizer", "optimizer", "root");
  const query::OpRunId run = test.Run(0, 0, gather, 0, 10).id;
  const query::OpRunId run_b0 = test.Run(0, 0, gather_b0, 10, 20).id;
  test.Run(0, 0, unshard, 10, 11);
  const query::OpRunId use = test.Run(0, 0, embedding, 11, 30).id;
  test.Run(0, 0, unshard_b0, 30, 31);
  const query::OpRunId use_b0 = test.Run(0, 0, block0, 31, 60).id;
  test.Run(0, 0, head, 60, 80);
  test.Run(0, 0, optimizer, 80, 90);
  const query::SnapshotPtr snapshot = test.Build();
  const PrefetchSlack slack = SlackOf(*snapshot, run, 0);
  ASSERT_TRUE(slack.found);
  EXPECT_EQ(slack.first_use_op_run, use);
  EXPECT_EQ(slack.first_use_ns, 11);
  EXPECT_EQ(SlackOf(*snapshot, run_b0, 0).first_use_op_run, use_b0);
}

// FSDP2 copies out; FSDP1 only waits.
INSTANTIATE_TEST_SUITE_P(Unshard, RootSlackTest, ::testing::Values("copy_out", "release"));

TEST_F(SlackTest, TheOptimizerUsesNoGatheredParameters) {
  TestSnapshot test(1);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "root");
  const query::PlanOpId optimizer = test.Plan("optimizer", "optimizer", "root", "", {gather});
  const query::OpRunId run = test.Run(0, 0, gather, 0, 10).id;
  test.Run(0, 0, optimizer, 10, 20);
  EXPECT_FALSE(SlackOf(*test.Build(), run, 0).found);
}

TEST_F(SlackTest, NothingToSay) {
  const query::OpRunId gather = test_.Run(0, 0, gather_, 0, 40).id;
  const query::OpRunId compute = test_.Run(0, 0, compute_b2_, 0, 90).id;
  EXPECT_FALSE(SlackOf(*test_.Build(), gather, 0).found);   // its use has not run yet
  EXPECT_FALSE(SlackOf(*test_.Build(), compute, 0).found);  // no all-gather
  EXPECT_FALSE(SlackOf(*test_.Build(), query::OpRunId(99), 0).found);
  EXPECT_FALSE(SlackOf(*test_.Build(), gather, 5).found);
}

}  // namespace
}  // namespace shardscope::analysis
