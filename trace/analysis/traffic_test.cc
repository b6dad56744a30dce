#include "trace/analysis/traffic.h"

#include <gtest/gtest.h>

#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

TEST(Traffic, IsThatOfOneRankInOneStepOfEachSchedule) {
  TestSnapshot test(2);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  test.NextSchedule("second");
  const query::PlanOpId reduce = test.Plan("reduce_scatter", "backward", "block0");
  test.snapshot().communicators = {"shard/0", "shard/1"};
  for (int32_t step = 0; step < 4; ++step) {
    for (const int32_t rank : {0, 1}) {
      const int64_t at_ns = 100 * step;
      test.Step(rank, step, at_ns, at_ns + 100).schedule = query::ScheduleId(step < 3 ? 1 : 2);
      const query::PlanOpId op = step < 3 ? gather : reduce;
      for (const int64_t bytes : {30, 12}) {
        test.Run(rank, step, op, at_ns + bytes, at_ns + bytes + 5);
        test.last_collective(rank).wire_bytes = bytes;
        test.last_collective(rank).communicator = rank;
      }
    }
  }
  // Of a step that has not ended.
  test.Run(0, 4, reduce, 400, 410);
  const std::vector<Traffic> traffic = TrafficOf(*test.Build());
  ASSERT_EQ(traffic.size(), 2u);
  EXPECT_EQ(traffic[0].schedule_name, "test");
  EXPECT_EQ(traffic[0].communicator, "shard");
  EXPECT_EQ(traffic[0].kind, query::OpClass::kAllGather);
  EXPECT_EQ(traffic[0].calls, 2);
  EXPECT_EQ(traffic[0].wire_bytes, 42);
  EXPECT_EQ(traffic[1].schedule_name, "second");
  EXPECT_EQ(traffic[1].kind, query::OpClass::kReduceScatter);
  EXPECT_EQ(traffic[1].wire_bytes, 42);
}

TEST(Traffic, OfARunThatSendsNothingThereIsNone) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 10);
  EXPECT_TRUE(TrafficOf(*test.Build()).empty());
}

}  // namespace
}  // namespace shardscope::analysis
