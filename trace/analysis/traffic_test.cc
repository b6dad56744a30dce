#include "trace/analysis/traffic.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

TEST(Traffic, IsThatOfOneRankInOneStepOfEachScheduleThatRan) {
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
  test.NextSchedule("never ran");
  test.op(test.Plan("all_reduce", "backward", "block0")).wire_bytes = 5;
  for (const int32_t rank : {0, 1}) {
    test.Step(rank, 0, 0, 100).schedule = query::ScheduleId(1);
    test.Step(rank, 1, 100, 200).schedule = query::ScheduleId(2);
  }
  const std::vector<Traffic> traffic = TrafficOf(*test.Build());
  ASSERT_EQ(traffic.size(), 2u);
  EXPECT_EQ(traffic[0].schedule_name, "test");
  EXPECT_EQ(traffic[0].communicator, "shard");
  EXPECT_EQ(traffic[0].kind, query::OpClass::kAllGather);
  EXPECT_EQ(traffic[0].calls, 2);
  EXPECT_EQ(traffic[0].wire_bytes, 42);
  EXPECT_EQ(traffic[1].schedule_name, "second");
  EXPECT_EQ(traffic[1].kind, query::OpClass::kReduceScatter);
  EXPECT_EQ(traffic[1].calls, 1);
  EXPECT_EQ(traffic[1].wire_bytes, 9);
}

TEST(Traffic, OfARunThatSendsNothingThereIsNone) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 10);
  EXPECT_TRUE(TrafficOf(*test.Build()).empty());
}

}  // namespace
}  // namespace shardscope::analysis
