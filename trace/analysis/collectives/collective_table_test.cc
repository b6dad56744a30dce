#include "trace/analysis/collectives/collective_table.h"

#include <gtest/gtest.h>

#include <map>
#include <tuple>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/analysis/steps/breakdown.h"

namespace shardscope::analysis {
namespace {

ScopedSteps StepsFrom(int32_t first, int32_t last) {
  return {ScopeKind::kSteps, first, last, first, -1};
}

TEST(CollectiveTable, AddsUpWhatIsKnownByHand) {
  TestSnapshot test(2);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  test.op(gather).payload_bytes = 2000;
  test.op(gather).wire_bytes = 1000;
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
  test.Run(0, 0, gather, 100, 600);
  test.Run(0, 0, forward, 550, 800);  // hides 50 of it
  test.Run(1, 0, gather, 350, 600);
  test.Step(0, 0, 0, 1000);
  test.Step(1, 0, 0, 1000);
  const CollectiveTable table = MakeCollectiveTable(*test.Build(), StepsFrom(0, 0));
  EXPECT_EQ(table.num_rank_steps, 2);
  ASSERT_EQ(table.groups.size(), 1u);
  const CollectiveGroup& group = table.groups[0];
  EXPECT_EQ(group.key, (CollectiveGroupKey{"all_gather", "block0", "shard"}));
  EXPECT_EQ(group.sums.calls, 2);
  EXPECT_EQ(group.sums.payload_bytes, 4000);
  EXPECT_EQ(group.sums.wire_bytes, 2000);
  EXPECT_EQ(group.sums.wait_ns, 250);
  EXPECT_EQ(group.sums.transfer_ns, 500);
  EXPECT_EQ(group.sums.exposed_ns, 450 + 250);
  EXPECT_DOUBLE_EQ(group.sums.bus_bandwidth(), 2000 / 500e-9);
  EXPECT_FALSE(group.sums.is_emulated);
  EXPECT_EQ(group.longest_rank, 0);
  EXPECT_EQ(group.longest_ns, 500);
  ASSERT_EQ(table.points.size(), 1u);
  EXPECT_EQ(table.points[0].rank, 1);  // came last
  EXPECT_EQ(table.points[0].payload_bytes, 2000);
  ASSERT_EQ(table.steps.size(), 1u);
  EXPECT_EQ(table.steps[0].sums.wire_bytes, 2000);
}

// A dash is for what no row tells, not for what is less than a byte a call.
TEST(CollectiveTable, PrintsADashWhereTheTraceTellsNoBytes) {
  CollectiveTable table;
  table.num_rank_steps = 100;
  table.groups.resize(2);
  table.groups[0].key.kind = "barrier";
  table.groups[0].sums.calls = 100;
  table.groups[0].sums.payload_bytes = table.groups[0].sums.wire_bytes = 1;
  table.groups[1].key.kind = "all_gather";
  table.groups[1].sums.calls = 100;
  const std::string text = PrintCollectives(table);
  const size_t second = text.find("all_gather");
  EXPECT_EQ(text.substr(0, second).find("\u2013"), std::string::npos) << text;
  EXPECT_NE(text.find("0 B"), std::string::npos) << text;
  EXPECT_NE(text.find("\u2013", second), std::string::npos) << text;
}

// By Collectives() and Breakdowns(), which are not by groups.
TEST(CollectiveTable, AgreesWithTheRunsOfItsSteps) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(3, 80, 40, 1);  // of two ranges of steps
  const CollectiveTable table = MakeCollectiveTable(*snapshot, StepsFrom(2, 75));
  std::map<CollectiveGroupKey, CollectiveSums> expected;
  std::map<int32_t, CollectiveSums> by_step;
  for (const CollectiveRun& run : Collectives(*snapshot, 2, 75)) {
    const query::PlanOp& op = *snapshot->FindPlanOp(run.plan_op);
    const CollectiveSums one{
        1, run.payload_bytes, run.wire_bytes, run.wait_ns, run.transfer_ns, 0, true};
    expected[{op.kind, op.unit, "shard"}].Add(one);
    by_step[run.step].Add(one);
  }
  ASSERT_EQ(table.groups.size(), expected.size());
  int64_t exposed_ns = 0;
  for (const CollectiveGroup& group : table.groups) {
    const CollectiveSums& sums = expected.at(group.key);
    EXPECT_EQ(group.sums.calls, sums.calls);
    EXPECT_EQ(group.sums.payload_bytes, sums.payload_bytes);
    EXPECT_EQ(group.sums.wire_bytes, sums.wire_bytes);
    EXPECT_EQ(group.sums.wait_ns, sums.wait_ns);
    EXPECT_EQ(group.sums.transfer_ns, sums.transfer_ns);
    EXPECT_TRUE(group.sums.is_emulated);
    exposed_ns += group.sums.exposed_ns;
  }
  ASSERT_EQ(table.steps.size(), 74u);
  for (const CollectiveStep& step : table.steps) {
    EXPECT_EQ(step.sums.wire_bytes, by_step.at(step.step).wire_bytes);
    EXPECT_EQ(step.sums.wait_ns, by_step.at(step.step).wait_ns);
  }
  // Two collectives that are exposed at one time count there once.
  int64_t of_steps_ns = 0;
  for (const StepBreakdown& row : Breakdowns(*snapshot)) {
    if (row.step >= 2 && row.step <= 75) of_steps_ns += row.time.exposed_ns;
  }
  EXPECT_GE(exposed_ns, of_steps_ns);
  EXPECT_GT(of_steps_ns, 0);
}

TEST(CollectiveTable, MergedRowsHaveTheSameSums) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(2, 6, 3);
  const std::vector<CollectiveGroup> groups =
      MakeCollectiveTable(*snapshot, StepsFrom(0, 5)).groups;
  const auto total = [](const std::vector<CollectiveGroup>& rows) {
    CollectiveSums sums;
    for (const CollectiveGroup& row : rows) sums.Add(row.sums);
    return std::tuple(sums.calls, sums.wire_bytes, sums.wait_ns, sums.exposed_ns);
  };
  const auto by_kind = Merged(groups, CollectiveMerge::kKind);
  ASSERT_EQ(by_kind.size(), 3u);
  EXPECT_EQ(by_kind[0].key.kind, "all_gather");
  EXPECT_TRUE(by_kind[0].key.unit.empty());
  EXPECT_EQ(Merged(groups, CollectiveMerge::kUnit).size(), 6u);  // that of no unit, too
  ASSERT_EQ(Merged(groups, CollectiveMerge::kDimension).size(), 1u);
  for (const CollectiveMerge merge : {CollectiveMerge::kNothing, CollectiveMerge::kKind,
                                      CollectiveMerge::kUnit, CollectiveMerge::kDimension}) {
    EXPECT_EQ(total(Merged(groups, merge)), total(groups));
  }
}

TEST(CollectiveTable, NoSumOverflows) {
  CollectiveSums sums;
  for (int i = 0; i < 4; ++i) sums.Add({.calls = 1, .wait_ns = int64_t{1} << 61});
  EXPECT_EQ(sums.calls, 4);
  EXPECT_EQ(sums.wait_ns, INT64_MAX);
}

TEST(CollectiveTable, GroupsOfADimensionAreOne) {
  CollectiveGroup first;
  first.key = {"all_gather", "block0", "shard/0"};
  first.sums.calls = 2;
  CollectiveGroup second;
  second.key = {"all_gather", "block0", "shard/1"};
  second.sums.calls = 3;
  CollectiveGroup third;
  third.key = {"all_reduce", "block0", "replicate/0"};
  third.sums.calls = 4;
  const auto rows = Merged({first, second, third}, CollectiveMerge::kDimension);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].key.communicator, "replicate");
  EXPECT_EQ(rows[1].key.communicator, "shard");
  EXPECT_EQ(rows[1].sums.calls, 5);
}

}  // namespace
}  // namespace shardscope::analysis
