#include "trace/analysis/traffic.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

TEST(Traffic, IsThatOfOneRankInOneStepOfEachSchedule) {
  TestSnapshot test(2);
  test.op(test.Plan("all_gather", "forward", "block0")).wire_bytes = 30;
  test.op(test.Plan("all_gather", "forward", "block1")).wire_bytes = 12;
  test.Plan("forward", "forward", "", "block1");
  test.NextSchedule("second");
  test.op(test.Plan("reduce_scatter", "backward", "block0")).wire_bytes = 7;
  // Ranks with a program of their own: the one that sends most counts.
  const query::PlanOpId other = test.Plan("reduce_scatter", "backward", "block0");
  test.op(other).wire_bytes = 9;
  test.op(other).program = 1;
  auto traffic = TrafficOf(*test.Build());
  ASSERT_EQ(traffic.size(), 2u);
  const std::vector<Traffic>& first = traffic[query::ScheduleId(1)];
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].communicator, "shard");
  EXPECT_EQ(first[0].kind, query::OpClass::kAllGather);
  EXPECT_EQ(first[0].calls, 2);
  EXPECT_EQ(first[0].wire_bytes, 42);
  const std::vector<Traffic>& second = traffic[query::ScheduleId(2)];
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].kind, query::OpClass::kReduceScatter);
  EXPECT_EQ(second[0].calls, 1);
  EXPECT_EQ(second[0].wire_bytes, 9);
}

TEST(Traffic, OfARunThatSendsNothingThereIsNone) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 10);
  EXPECT_TRUE(TrafficOf(*test.Build()).empty());
}

}  // namespace
}  // namespace shardscope::analysis
