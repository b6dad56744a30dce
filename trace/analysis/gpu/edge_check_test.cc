#include "trace/analysis/gpu/edge_check.h"

#include <gtest/gtest.h>

#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

// copy_in (copy stream) -> gather -> copy_out, forward (compute); the host waits for forward and
// then has the reduce-scatter issued, which follows the gather on their communicator.
class EdgeCheckTest : public ::testing::Test {
 protected:
  EdgeCheckTest() {
    test_.op(scatter_).host_predecessors = {forward_};
    for (int32_t step = 0; step < 2; ++step) {
      for (const query::PlanOpId op : {cast_, gather_, copy_out_, forward_, scatter_})
        Work(op, step);
    }
  }

  void Work(query::PlanOpId plan_op, int32_t step) {
    query::GpuWork work;
    work.plan_op = plan_op;
    work.step = step;
    test_.snapshot().ranks[0].gpu_work.Append(work);
  }
  void Wait(query::PlanOpId from, query::PlanOpId to, int32_t step) {
    query::EventEdge edge;
    edge.from_plan_op = from;
    edge.to_plan_op = to;
    edge.from_step = edge.step = step;
    test_.snapshot().ranks[0].event_edges.Append(edge);
  }
  // As planned.
  void WaitsOf(int32_t step) {
    Wait(cast_, gather_, step);
    Wait(gather_, copy_out_, step);
    Wait(gather_, scatter_, step);
  }
  EdgeCheck Check() { return CheckEdges(*test_.Build()); }

  TestSnapshot test_{1};
  query::PlanOpId cast_ = test_.Plan("cast", "forward", "block0");
  query::PlanOpId gather_ = test_.Plan("all_gather", "forward", "block0", "", {cast_});
  query::PlanOpId wait_ =
      test_.Plan("release", "forward", "block0", "", {gather_});  // no work of its own
  query::PlanOpId copy_out_ = test_.Plan("copy_out", "forward", "block0");
  query::PlanOpId forward_ = test_.Plan("forward", "forward", "", "block0.mlp");
  query::PlanOpId scatter_ = test_.Plan("reduce_scatter", "backward", "block0", "", {forward_});
};

TEST_F(EdgeCheckTest, WaitsAsPlannedDifferInNothing) {
  WaitsOf(0);
  WaitsOf(1);
  const EdgeCheck check = Check();
  EXPECT_EQ(check.seen, 6);
  // The wait without work stands for copy_out behind it; that of the host is no stream's.
  EXPECT_EQ(check.planned, 6);
  EXPECT_EQ(check.missing, 0);
  EXPECT_EQ(check.extra, 0);
  EXPECT_TRUE(check.compared());
  EXPECT_NE(PrintEdges(check).find("6 seen; they are those of the Schedule"), std::string::npos);
}

TEST_F(EdgeCheckTest, WhatIsMissingAndWhatNothingPlansIsNamed) {
  WaitsOf(0);
  Wait(cast_, gather_, 1);
  Wait(gather_, scatter_, 1);
  Wait(forward_, scatter_, 1);
  const EdgeCheck check = Check();
  EXPECT_EQ(check.missing, 1);
  EXPECT_EQ(check.extra, 1);
  ASSERT_EQ(check.differences.size(), 2u);
  const EdgeDifference* missing = check.Find(0, 1, gather_, copy_out_);
  ASSERT_NE(missing, nullptr);
  EXPECT_TRUE(missing->missing);
  const EdgeDifference* extra = check.Find(0, 1, forward_, scatter_);
  ASSERT_NE(extra, nullptr);
  EXPECT_FALSE(extra->missing);
  EXPECT_EQ(check.Find(0, 0, gather_, copy_out_), nullptr);
  ASSERT_EQ(check.groups.size(), 2u);
  const std::string text = PrintEdges(check);
  EXPECT_NE(text.find("1 of 6 planned ones missing"), std::string::npos) << text;
  EXPECT_NE(text.find("missing F m0 block0 all_gather -> F m0 block0 copy_out"), std::string::npos)
      << text;
}

TEST_F(EdgeCheckTest, AStrongerWaitIsAsGood) {
  // Compute waits for the gather before the op that has to: nothing is missing. A wait for an
  // earlier op than the planned one is covered by that.
  WaitsOf(0);
  WaitsOf(1);
  const query::PlanOpId next_gather = test_.Plan("all_gather", "forward", "block1");
  const query::PlanOpId next_forward =
      test_.Plan("forward", "forward", "", "block1.mlp", {next_gather});
  for (int32_t step = 0; step < 2; ++step) {
    Work(next_gather, step);
    Work(next_forward, step);
    Wait(scatter_, next_gather, step);
    Wait(gather_, next_forward, step);  // weaker than planned
  }
  EdgeCheck check = Check();
  EXPECT_EQ(check.missing, 2);
  EXPECT_EQ(check.extra, 0);
  ASSERT_EQ(check.groups.size(), 1u);
  EXPECT_EQ(check.groups[0].count, 2);
  EXPECT_EQ(check.groups[0].to, "F m0 block1.mlp forward");
  Wait(next_gather, forward_, 0);  // stronger than planned: an earlier op of compute waits already
  check = Check();
  EXPECT_EQ(check.missing, 1);
  EXPECT_EQ(check.extra, 1);
}

TEST_F(EdgeCheckTest, WhileRowsComeTheNewestStepIsNotCompared) {
  WaitsOf(0);
  test_.snapshot().state = query::TraceState::kLive;
  EXPECT_EQ(Check().missing, 0);
  test_.snapshot().state = query::TraceState::kCut;
  EXPECT_EQ(Check().missing, 3);
}

TEST_F(EdgeCheckTest, WaitsOverTheEndOfAStepAreNotCompared) {
  WaitsOf(0);
  WaitsOf(1);
  query::EventEdge edge;
  edge.from_plan_op = forward_;
  edge.to_plan_op = gather_;
  edge.from_step = 0;
  edge.step = 1;
  test_.snapshot().ranks[0].event_edges.Append(edge);
  EXPECT_EQ(Check().extra, 0);
  EXPECT_EQ(Check().seen, 7);
}

TEST(EdgeCheckWithoutPlanTest, OnlyCounts) {
  query::Snapshot snapshot;
  EXPECT_EQ(PrintEdges(CheckEdges(snapshot)), "");
  snapshot.ranks.resize(1);
  snapshot.ranks[0].gpu_work.Append({});
  snapshot.ranks[0].event_edges.Append({});
  const EdgeCheck check = CheckEdges(snapshot);
  EXPECT_FALSE(check.compared());
  EXPECT_NE(PrintEdges(check).find("1 seen; no Schedule"), std::string::npos);
}

}  // namespace
}  // namespace shardscope::analysis
