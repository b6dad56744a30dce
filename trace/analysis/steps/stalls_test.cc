#include <gtest/gtest.h>

#include "trace/analysis/names.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/base/time.h"

namespace shardscope::analysis {
namespace {

using query::BlockingKind;

// Times in milliseconds: far above kSmallestStallNs.
constexpr int64_t Ms(double ms) { return static_cast<int64_t>(ms * kNsPerMs); }

// Two ranks that do the same; rank 0's stalls are looked at. The plan: embedding and block1 in
// forward, block2 and block1 in backward, the optimizer.
class StallsTest : public ::testing::Test {
 protected:
  query::OpRun& Run(query::PlanOpId op, double start, double end,
                    query::PlanOpId blocker = query::PlanOpId::None(),
                    BlockingKind kind = BlockingKind::kNone) {
    Block(&test_.Run(1, 0, op, Ms(start), Ms(end)), blocker, kind);
    query::OpRun& run = test_.Run(0, 0, op, Ms(start), Ms(end));
    Block(&run, blocker, kind);
    return run;
  }
  static void Block(query::OpRun* run, query::PlanOpId blocker, BlockingKind kind) {
    run->blocking_plan_op = blocker;
    run->blocking_kind = kind;
  }
  // The only stall of rank 0.
  Stall Only() {
    test_.Step(0, 0, Ms(0), Ms(1000));
    std::vector<Stall> stalls = Stalls(*test_.Build(), 0, 0);
    std::erase_if(stalls, [](const Stall& stall) { return stall.rank != 0; });
    EXPECT_EQ(stalls.size(), 1u);
    return stalls.empty() ? Stall{} : stalls.front();
  }

  TestSnapshot test_{2};
  query::PlanOpId gather_embedding_ = test_.Plan("all_gather", "forward", "embedding");
  query::PlanOpId forward_embedding_ =
      test_.Plan("forward", "forward", "", "embedding", {gather_embedding_});
  query::PlanOpId gather_f1_ = test_.Plan("all_gather", "forward", "block1");
  query::PlanOpId forward_b1_ = test_.Plan("forward", "forward", "", "block1", {gather_f1_});
  query::PlanOpId backward_b2_ = test_.Plan("backward", "backward", "", "block2");
  query::PlanOpId scatter_b2_ =
      test_.Plan("reduce_scatter", "backward", "block2", "", {backward_b2_});
  query::PlanOpId gather_b1_ = test_.Plan("all_gather", "backward", "block1");
  query::PlanOpId copy_out_b1_ = test_.Plan("copy_out", "backward", "block1", "", {gather_b1_});
  query::PlanOpId backward_b1_ =
      test_.Plan("backward", "backward", "", "block1.mlp", {copy_out_b1_});
  query::PlanOpId scatter_b1_ =
      test_.Plan("reduce_scatter", "backward", "block1", "", {backward_b1_});
  query::PlanOpId accumulate_b1_ =
      test_.Plan("accumulate", "backward", "block1", "", {scatter_b1_});
  query::PlanOpId optimizer_ = test_.Plan("optimizer", "optimizer", "block1", "", {accumulate_b1_});
};

TEST_F(StallsTest, FirstGatherOfTheStep) {
  Run(gather_embedding_, 1, 5);
  Run(forward_embedding_, 5, 9, gather_embedding_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kFirstGather);
  EXPECT_EQ(stall.sentence, "first gather of the step");
  EXPECT_EQ(stall.title, "AG embedding → F");
  EXPECT_EQ(stall.start_ns, 0);  // the step begins
  EXPECT_EQ(stall.end_ns, Ms(5));
  EXPECT_EQ(stall.stall_ns, Ms(5));
  EXPECT_EQ(stall.op_name, "F m0 embedding forward");
  EXPECT_EQ(stall.blocking_name, "F m0 embedding all_gather");
}

TEST_F(StallsTest, FirstGatherThatTheHostIssuedLate) {
  Run(gather_embedding_, 17, 18);
  Run(forward_embedding_, 18, 22, gather_embedding_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kIssuedLate);
  EXPECT_EQ(stall.sentence, "issued late by the host");
  EXPECT_EQ(stall.title, "AG embedding → F");
  EXPECT_EQ(stall.stall_ns, Ms(18));
}

TEST_F(StallsTest, QueuedBehindAReduceScatterThroughTheCopyOut) {
  Run(backward_b2_, 0, 10);
  Run(scatter_b2_, 10, 14, backward_b2_, BlockingKind::kEvent);
  query::OpRun& gather = Run(gather_b1_, 14, 18, scatter_b2_, BlockingKind::kCommunicatorOrder);
  gather.issued_ns = Ms(10);
  Run(copy_out_b1_, 18, 19, gather_b1_, BlockingKind::kEvent);
  Run(backward_b1_, 19, 29, copy_out_b1_, BlockingKind::kStreamOrder);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kQueuedBehind);
  EXPECT_EQ(stall.cause_object, "RS block2");
  EXPECT_EQ(stall.sentence, "all-gather queued behind RS block2");
  EXPECT_EQ(stall.title, "AG block1 → B");
  EXPECT_EQ(stall.op_name, "B m0 block1.mlp backward");
  EXPECT_EQ(stall.start_ns, Ms(10));
  EXPECT_EQ(stall.end_ns, Ms(18));  // the copy-out began: what follows is a copy, no wait
}

TEST_F(StallsTest, LateRankIsNamed) {
  Run(backward_b2_, 0, 10);
  test_.Run(0, 0, gather_b1_, Ms(8), Ms(20)).issued_ns = Ms(1);
  test_.Run(1, 0, gather_b1_, Ms(19), Ms(20));
  Run(backward_b1_, 20, 30, gather_b1_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kLateRank);
  EXPECT_EQ(stall.cause_object, "rank 1");
  EXPECT_EQ(stall.sentence, "late rank 1");
}

TEST_F(StallsTest, LateRankHeldTheCollectiveInFront) {
  Run(backward_b2_, 0, 10);
  test_.Run(0, 0, scatter_b2_, Ms(10), Ms(20));
  test_.Run(1, 0, scatter_b2_, Ms(19), Ms(20));
  Run(gather_b1_, 20, 22, scatter_b2_, BlockingKind::kCommunicatorOrder).issued_ns = Ms(10);
  Run(backward_b1_, 22, 30, gather_b1_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kLateRank);
  EXPECT_EQ(stall.cause_object, "rank 1");
  EXPECT_EQ(stall.blocking_name, "B m0 block1 all_gather");
}

TEST_F(StallsTest, IssuedLateByAHostThatWaited) {
  Run(backward_b2_, 0, 10);
  Run(gather_b1_, 10, 15, backward_b2_, BlockingKind::kHost);
  Run(backward_b1_, 15, 25, gather_b1_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kIssuedLate);
  EXPECT_EQ(stall.cause_object, "B block2");
  EXPECT_EQ(stall.sentence, "issued late: host waited for B block2");
}

TEST_F(StallsTest, IssuedLateWithoutAWait) {
  Run(backward_b2_, 0, 10);
  Run(gather_b1_, 12, 15);
  Run(backward_b1_, 15, 25, gather_b1_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kIssuedLate);
  EXPECT_EQ(stall.sentence, "issued late by the host");
}

TEST_F(StallsTest, SlowTransferThatBeganInTime) {
  Run(backward_b2_, 0, 10);
  Run(gather_b1_, 1, 15);
  Run(backward_b1_, 15, 25, gather_b1_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kSlowTransfer);
  EXPECT_EQ(stall.cause_object, "B block2");
  EXPECT_EQ(stall.sentence, "transfer longer than B block2 it hides under");
  EXPECT_EQ(stall.stall_ns, Ms(5));
}

TEST_F(StallsTest, TailOfTheLastReduceScatter) {
  Run(backward_b1_, 0, 10);
  Run(scatter_b1_, 10, 20, backward_b1_, BlockingKind::kEvent);
  Run(accumulate_b1_, 20, 21, scatter_b1_, BlockingKind::kStreamOrder);
  Run(optimizer_, 21, 25, accumulate_b1_, BlockingKind::kEvent);
  const Stall stall = Only();
  EXPECT_EQ(stall.cause, StallCause::kTail);
  EXPECT_EQ(stall.sentence, "tail, nothing left to hide under");
  EXPECT_EQ(stall.title, "RS block1 → O");
  EXPECT_EQ(stall.blocking_name, "B m0 block1 reduce_scatter");
}

TEST_F(StallsTest, SlotWaitIsAStallOfItsOwn) {
  Run(backward_b2_, 0, 10);
  Run(gather_b1_, 1, 15);
  Run(backward_b1_, 40, 50, query::PlanOpId::None(), BlockingKind::kSlot).slot_wait_ns = Ms(25);
  test_.op(backward_b1_).predecessors = {gather_b1_};
  test_.Step(0, 0, 0, Ms(100));
  std::vector<Stall> stalls = Stalls(*test_.Build(), 0, 0);
  std::erase_if(stalls, [](const Stall& stall) { return stall.rank != 0; });
  ASSERT_EQ(stalls.size(), 2u);
  EXPECT_EQ(stalls[0].cause, StallCause::kSlowTransfer);
  EXPECT_EQ(stalls[0].end_ns, Ms(15));
  EXPECT_EQ(stalls[1].cause, StallCause::kSlot);
  EXPECT_EQ(stalls[1].sentence, "waited for a compute slot");
  EXPECT_EQ(stalls[1].stall_ns, Ms(25));
  EXPECT_EQ(stalls[1].blocking_op_run, query::OpRunId::None());
}

TEST_F(StallsTest, WhatIsNoStall) {
  Run(backward_b2_, 0, 10);
  Run(gather_b1_, 1, 10.015);
  Run(backward_b1_, 10.015, 20, gather_b1_, BlockingKind::kEvent);    // 15 us: below the threshold
  Run(optimizer_, 30, 40, backward_b1_, BlockingKind::kStreamOrder);  // waited for no collective
  test_.Step(0, 0, 0, Ms(100));
  EXPECT_TRUE(Stalls(*test_.Build(), 0, 0).empty());
  EXPECT_TRUE(Stalls(*test_.Build(), 1, 5).empty());
}

TEST(StallGroups, AddsUpPlacesAndMergesSlots) {
  Stall first;
  first.op_name = "B m0 block1 backward";
  first.blocking_name = "B m0 block1 all_gather";
  first.cause = StallCause::kLateRank;
  first.cause_object = "rank 1";
  first.stall_ns = 10;
  Stall second = first;
  second.rank = 3;
  second.stall_ns = 30;
  Stall other = first;
  other.cause_object = "rank 2";
  other.stall_ns = 25;
  Stall slot;
  slot.op_name = "F m0 block1 forward";
  slot.cause = StallCause::kSlot;
  slot.stall_ns = 50;
  Stall slot_elsewhere = slot;
  slot_elsewhere.op_name = "F m0 block2 forward";
  StallGroups added;
  added.Add({first, second, other});
  added.Add({slot, slot_elsewhere});
  const std::vector<StallGroup> groups = added.Sorted(4);
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].cause, StallCause::kSlot);
  EXPECT_EQ(groups[0].total_ns, 100);
  EXPECT_EQ(groups[1].total_ns, 40);
  EXPECT_EQ(groups[1].count, 2);
  EXPECT_EQ(groups[1].worst.rank, 3);
  EXPECT_EQ(groups[1].ns_per_step, 10);
  EXPECT_EQ(groups[2].total_ns, 25);
}

TEST(ShortName, AsInThePictures) {
  TestSnapshot test(1);
  const auto name = [&](const char* kind, const char* phase, const char* unit, const char* segment,
                        int32_t micro_batch) {
    query::PlanOp& op = test.op(test.Plan(kind, phase, unit, segment));
    op.micro_batch = micro_batch;
    return ShortName(op);
  };
  EXPECT_EQ(name("all_gather", "backward", "block1", "", 0), "AG block1");
  EXPECT_EQ(name("reduce_scatter", "backward", "block2", "", 1), "RS m1 block2");
  EXPECT_EQ(name("all_reduce", "optimizer", "", "", -1), "AR");
  EXPECT_EQ(name("forward", "forward", "", "block1.mlp", 0), "F block1.mlp");
  EXPECT_EQ(name("backward", "backward", "", "head", 0), "B head");
  EXPECT_EQ(name("copy_out", "forward", "block1", "", 0), "copy-out block1");
  EXPECT_EQ(name("grad_norm", "optimizer", "", "", -1), "grad norm");
}

}  // namespace
}  // namespace shardscope::analysis
