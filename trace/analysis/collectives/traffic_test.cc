#include "trace/analysis/collectives/traffic.h"

#include <gtest/gtest.h>

#include <cstdint>

#include "trace/analysis/capped_sum.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

TEST(AddCapped, EndsAtTheLargestNumber) {
  int64_t sum = 5;
  AddCapped(-7, &sum);
  EXPECT_EQ(sum, -2);
  AddCapped(INT64_MAX, &sum);
  EXPECT_EQ(sum, INT64_MAX - 2);
  AddCapped(3, &sum);
  EXPECT_EQ(sum, INT64_MAX);
}

TEST(Traffic, IsThatOfOneRankInOneStepOfEachSchedule) {
  TestSnapshot test(2);
  test.op(test.Plan("all_gather", "forward", "block0")).wire_bytes = 30;
  test.op(test.Plan("all_gather", "forward", "block1")).wire_bytes = 12;
  test.Plan("forward", "forward", "", "block1");
  test.NextSchedule("second");
  test.op(test.Plan("reduce_scatter", "backward", "block0")).wire_bytes = 7;
  auto traffic = TrafficOf(*test.Build());
  ASSERT_EQ(traffic.size(), 2u);
  const std::vector<Traffic>& first = traffic[query::ScheduleId(1)].rows;
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].communicator, "shard");
  EXPECT_EQ(first[0].kind, query::OpClass::kAllGather);
  EXPECT_EQ(first[0].calls, 2);
  EXPECT_EQ(first[0].wire_bytes, 42);
  EXPECT_FALSE(traffic[query::ScheduleId(1)].rank.has_value());
  const std::vector<Traffic>& second = traffic[query::ScheduleId(2)].rows;
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].kind, query::OpClass::kReduceScatter);
  EXPECT_EQ(second[0].calls, 1);
  EXPECT_EQ(second[0].wire_bytes, 7);
}

// Two stages of a pipeline: each sends something else, and what is received is sent by the other.
TEST(Traffic, IsOfTheRankThatSendsMostWhereRanksDiffer) {
  TestSnapshot test(4);
  test.snapshot().schedules.at(query::ScheduleId(1)).text = "rank_programs ranks=1,1,0,0\n";
  const auto plan = [&test](int32_t program, const char* kind, const char* communicator,
                            int64_t wire_bytes) {
    query::PlanOp& op = test.op(test.Plan(kind, "forward", "block0"));
    op.program = program;
    op.communicator = communicator;
    op.wire_bytes = wire_bytes;
  };
  plan(0, "all_gather", "shard", 40);
  plan(0, "receive", "activation", 12);  // as importers have it
  plan(0, "send", "gradient", 12);
  plan(1, "all_gather", "shard", 30);
  plan(1, "send", "activation", 12);
  plan(1, "receive", "gradient", 0);
  const auto traffic = [&test] { return TrafficOf(*test.Build()).at(query::ScheduleId(1)); };
  const RankTraffic first = traffic();
  EXPECT_EQ(first.rank, 2);
  ASSERT_EQ(first.rows.size(), 2u);
  EXPECT_EQ(first.rows[0].communicator, "gradient");
  EXPECT_EQ(first.rows[0].calls, 1);
  EXPECT_EQ(first.rows[1].wire_bytes, 40);
  plan(1, "all_gather", "shard", 10);  // as much as the other
  const RankTraffic second = traffic();
  EXPECT_EQ(second.rank, 0);
  ASSERT_EQ(second.rows.size(), 2u);
  EXPECT_EQ(second.rows[0].communicator, "activation");
  EXPECT_EQ(second.rows[1].calls, 2);
  // A rank that sends nothing differs, too.
  plan(2, "forward", "", 0);
  EXPECT_EQ(traffic().rank, 0);
}

TEST(Traffic, OfARunThatSendsNothingThereIsNone) {
  TestSnapshot test(1);
  test.Step(0, 0, 0, 10);
  EXPECT_TRUE(TrafficOf(*test.Build()).empty());
}

}  // namespace
}  // namespace shardscope::analysis
