#include "trace/analysis/row_index.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "trace/analysis/derived.h"
#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

constexpr int kSteps = 200;
constexpr int kWithoutRow = 64;  // would be the first of its range

// Each step has an all-gather that its forward waits for.
query::SnapshotPtr MakeSteps() {
  TestSnapshot test(1);
  const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
  const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp", {gather});
  for (int step = 0; step < kSteps; ++step) {
    const int64_t begin_ns = int64_t{10'000'000} * step;
    const int64_t gathered_ns = begin_ns + (step == kWithoutRow ? 8'000'000 : 3'000'000);
    test.Run(0, step, gather, begin_ns, gathered_ns);
    query::OpRun& run = test.Run(0, step, forward, gathered_ns, begin_ns + 9'000'000);
    run.issued_ns = begin_ns;
    run.blocking_plan_op = gather;
    run.blocking_kind = query::BlockingKind::kEvent;
    if (step != kWithoutRow) test.Step(0, step, begin_ns, begin_ns + 10'000'000);
  }
  return test.Build();
}

TEST(StepRanges, LieSideBySideWithSoManyFinishedStepsEach) {
  const query::SnapshotPtr snapshot = MakeSteps();
  const std::vector<std::pair<int, int>> ranges = StepRanges(*snapshot, 0, kSteps - 1);
  EXPECT_EQ(ranges, (std::vector<std::pair<int, int>>{{0, 64}, {65, 128}, {129, 192}, {193, 199}}));
  EXPECT_EQ(StepRanges(*snapshot, 10, 20), (std::vector<std::pair<int, int>>{{10, 20}}));
  EXPECT_TRUE(StepRanges(*snapshot, kWithoutRow, kWithoutRow).empty());
}

// Its rank may have lost its row.
TEST(StepRanges, AStepWithoutARowBetweenTwoOfThemIsLookedAt) {
  const query::SnapshotPtr snapshot = MakeSteps();
  const std::vector<Stall> stalls = Stalls(*snapshot, 0, kSteps - 1);
  ASSERT_EQ(stalls.size(), static_cast<size_t>(kSteps));
  const CollectiveRun slowest = MakeReport(*snapshot).figures.slowest_collectives.at(0);
  EXPECT_EQ(slowest.step, kWithoutRow);

  query::DerivedRows rows;
  MakeDeriver().derive_steps(*snapshot, &rows);
  ASSERT_EQ(rows.stalls.all().size(), stalls.size());
  for (size_t i = 0; i < stalls.size(); ++i) {
    const query::KeptStall& kept = rows.stalls.all()[i];
    EXPECT_EQ(kept.step, stalls[i].step);
    EXPECT_EQ(kept.end_ns, stalls[i].end_ns);
    EXPECT_EQ(kept.blocking_op_run, stalls[i].blocking_op_run);
    EXPECT_EQ(rows.stalls.WordsOf(kept).sentence, stalls[i].sentence);
  }
  ASSERT_EQ(rows.slow_collectives.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(rows.slow_collectives[kWithoutRow].ended_ns, slowest.ended_ns);
}

}  // namespace
}  // namespace shardscope::analysis
