#include "trace/analysis/ranks/rank_grid.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

// Four ranks gather twice in one step; they arrive when the rows say.
class FourRanks : public ::testing::Test {
 protected:
  void Gather(query::PlanOpId op, const std::vector<int64_t>& arrivals, int64_t end_ns) {
    for (size_t rank = 0; rank < arrivals.size(); ++rank) {
      test_.Run(static_cast<int32_t>(rank), 0, op, arrivals[rank], end_ns);
    }
  }
  RankGrid Grid() {
    const query::SnapshotPtr snapshot = test_.Build();
    return MakeRankGrid(*snapshot, Breakdowns(*snapshot));
  }

  TestSnapshot test_{4};
  query::PlanOpId gather_ = test_.Plan("all_gather", "forward", "block0");
  query::PlanOpId scatter_ = test_.Plan("reduce_scatter", "backward", "block0");
};

TEST_F(FourRanks, LateIsWhoArrivesAfterTheMedianOfTheOthers) {
  Gather(gather_, {100, 110, 105, 400}, 500);
  Gather(scatter_, {600, 700, 610, 650}, 900);
  for (int32_t rank = 0; rank < 4; ++rank) test_.Step(rank, 0, 0, 1000);
  const RankGrid grid = Grid();
  ASSERT_EQ(grid.ranks, (std::vector<int32_t>{0, 1, 2, 3}));
  ASSERT_EQ(grid.steps, (std::vector<int32_t>{0}));
  // The others of rank 3 arrived at 100, 105, 110, later at 600, 610, 700.
  const RankCell& slow = grid.At(3, 0);
  EXPECT_EQ(slow.num_collectives, 2);
  EXPECT_EQ(slow.num_last, 1);
  EXPECT_EQ(slow.late_ns, (400 - 105) + (650 - 610));
  EXPECT_EQ(slow.last_late_ns, 400 - 105);
  EXPECT_EQ(slow.step_ns, 1000);
  EXPECT_EQ(slow.exposed_ns, 100 + 250);
  // Those of rank 1: 100, 105, 400; then 600, 610, 650.
  EXPECT_EQ(grid.At(1, 0).late_ns, (110 - 105) + (700 - 610));
  EXPECT_EQ(grid.At(1, 0).num_last, 1);
  EXPECT_EQ(grid.At(0, 0).late_ns, 0);
  EXPECT_EQ(*ValueOf(slow, RankFigure::kLateness), (295 + 40) / 2.0);
  EXPECT_EQ(*ValueOf(slow, RankFigure::kExposedShare), 0.35);
}

TEST_F(FourRanks, OnlyWhatAllRanksCameToCounts) {
  const query::PlanOpId send = test_.Plan("send", "forward", "block0");
  Gather(send, {0, 0, 0, 50}, 80);
  Gather(gather_, {100, 110, 400}, 500);  // rank 3's row is missing
  for (int32_t rank = 0; rank < 3; ++rank) test_.Step(rank, 0, 0, 1000);
  const RankGrid grid = Grid();
  for (size_t rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(grid.At(rank, 0).num_collectives, 0);
    EXPECT_EQ(ValueOf(grid.At(rank, 0), RankFigure::kLateness), std::nullopt);
  }
  EXPECT_FALSE(grid.At(3, 0).is_finished);
  EXPECT_EQ(ValueOf(grid.At(3, 0), RankFigure::kStepTime), std::nullopt);
  EXPECT_EQ(*ValueOf(grid.At(2, 0), RankFigure::kStepTime), 1000);
}

TEST(PeakBytesOfEachStep, IsThatOfTheStepAlone) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(3, 9, 4);
  for (const query::RankRows& rows : snapshot->ranks) {
    const std::vector<int64_t> peaks = PeakBytesOfEachStep(rows);
    ASSERT_EQ(peaks.size(), 9u);
    EXPECT_GT(*std::max_element(peaks.begin(), peaks.end()), 0);
    for (int32_t step = 0; step < 9; ++step) {
      const std::vector<MemoryPeak> of_step = MemoryPeaksOfSteps(*snapshot, step, step);
      EXPECT_EQ(peaks[static_cast<size_t>(step)],
                of_step[static_cast<size_t>(rows.rank)].peak_bytes);
    }
  }
}

// By every pair of runs that share communicator and sequence, without sorting.
TEST(RankGrid, AgreesWithCountingPairs) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(5, 8, 4, 2);
  const RankGrid grid = MakeRankGrid(*snapshot, Breakdowns(*snapshot));
  const std::vector<CollectiveRun> runs = Collectives(*snapshot, 0, 7);
  std::map<std::pair<int32_t, int32_t>, RankCell> expected;
  for (const CollectiveRun& run : runs) {
    std::vector<int64_t> others;
    for (const CollectiveRun& other : runs) {
      const bool same = other.communicator == run.communicator && other.sequence == run.sequence;
      if (same && other.rank != run.rank) others.push_back(other.started_ns);
    }
    ASSERT_EQ(others.size(), 4u);
    std::sort(others.begin(), others.end());
    RankCell& cell = expected[{run.rank, run.step}];
    ++cell.num_collectives;
    cell.late_ns += std::max<int64_t>(0, run.started_ns - others[2]);
    if (run.last_rank == run.rank) ++cell.num_last;
  }
  ASSERT_EQ(expected.size(), 5u * 8u);
  for (size_t rank = 0; rank < 5; ++rank) {
    for (size_t step = 0; step < 8; ++step) {
      const RankCell& cell = grid.At(rank, step);
      const RankCell& wanted = expected[{grid.ranks[rank], grid.steps[step]}];
      EXPECT_EQ(cell.num_collectives, wanted.num_collectives);
      EXPECT_EQ(cell.late_ns, wanted.late_ns);
      EXPECT_EQ(cell.num_last, wanted.num_last);
    }
  }
}

TEST(RankGrid, WhatIsTakenOverIsWhatWouldBeMade) {
  const query::SnapshotPtr before = MakeLessonSnapshot(3, 20, 10, 1);
  const query::SnapshotPtr after = MakeLessonSnapshot(3, 30, 10, 1);
  RankGrid old = MakeRankGrid(*before, Breakdowns(*before));
  const std::vector<StepBreakdown> steps = Breakdowns(*after);
  EXPECT_EQ(MakeRankGrid(*after, steps, &old).cells, MakeRankGrid(*after, steps).cells);
  // It is taken over: a mark in an old cell stays, one in a new cell does not.
  old.cells[0].late_ns = 4711;
  old.cells[19].late_ns = 4711;
  const RankGrid marked = MakeRankGrid(*after, steps, &old);
  EXPECT_EQ(marked.At(0, 0).late_ns, 4711);
  EXPECT_NE(marked.At(0, 19).late_ns, 4711);
}

}  // namespace
}  // namespace shardscope::analysis
