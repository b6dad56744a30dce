#include "trace/analysis/steps/breakdown_cache.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

TEST(BreakdownCache, LateRowsCorrectTheirStep) {
  TestSnapshot test(2);
  test.snapshot().state = query::TraceState::kLive;
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  BreakdownCache cache;
  test.Run(0, 0, forward, 0, 10);
  test.Step(0, 0, 0, 20);
  ASSERT_EQ(cache.Update(*test.Build()).size(), 1u);
  EXPECT_EQ(cache.Update(*test.Build()).front().time.compute_ns, 10);
  test.Run(0, 0, forward, 12, 17);  // committed after the row of its step
  test.Run(1, 0, forward, 0, 8);
  test.Step(1, 0, 0, 20);
  test.Step(1, 1, 20, 30);
  test.Step(0, 1, 20, 30);
  const std::vector<StepBreakdown>& rows = cache.Update(*test.Build());
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0].time.compute_ns, 15);
  EXPECT_EQ(rows[1].rank, 1);
  EXPECT_EQ(rows[1].time.compute_ns, 8);
  EXPECT_EQ(rows[2].step, 1);
  EXPECT_EQ(rows[2].rank, 0);
}

TEST(BreakdownCache, WaitsForThePlanOfALiveRun) {
  TestSnapshot test(1);
  test.snapshot().state = query::TraceState::kLive;
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  test.Run(0, 0, forward, 0, 10);
  test.Step(0, 0, 0, 20);
  const query::PlanOp op = test.op(forward);
  test.snapshot().plan_ops.clear();
  BreakdownCache cache;
  EXPECT_EQ(cache.Update(*test.Build()).front().time.compute_ns, 0);
  test.snapshot().plan_ops[forward] = op;
  EXPECT_EQ(cache.Update(*test.Build()).front().time.compute_ns, 10);
}

}  // namespace
}  // namespace shardscope::analysis
