#include "trace/analysis/ranks/rank_findings.h"

#include <gtest/gtest.h>

#include <span>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/base/units.h"

namespace shardscope::analysis {
namespace {

constexpr int64_t kStepNs = 100'000'000;
constexpr int kCollectives = 10;

// All ranks the same in each of `num_steps` steps; collectives' last ranks are dealt out in turn.
RankGrid EqualRanks(int num_ranks, int num_steps) {
  RankGrid grid;
  for (int rank = 0; rank < num_ranks; ++rank) grid.ranks.push_back(rank);
  for (int step = 0; step < num_steps; ++step) grid.steps.push_back(step);
  grid.cells.resize(static_cast<size_t>(num_ranks * num_steps));
  for (int rank = 0; rank < num_ranks; ++rank) {
    for (int step = 0; step < num_steps; ++step) {
      RankCell& cell = grid.cells[static_cast<size_t>(rank * num_steps + step)];
      cell.is_finished = true;
      cell.step_ns = kStepNs + (rank * 7 + step * 13) % 5 * 1000;
      cell.exposed_ns = kStepNs / 10;
      cell.peak_bytes = 1'000'000;
      cell.num_collectives = kCollectives;
      for (int at = 0; at < kCollectives; ++at) {
        if ((step * kCollectives + at) % num_ranks != rank) continue;
        ++cell.num_last;
        cell.late_ns += 2000;
        cell.last_late_ns += 2000;
      }
    }
  }
  return grid;
}

// These ranks share the last places of nine of ten collectives, each 3 ms behind.
void MakeSlow(const std::vector<int32_t>& ranks, RankGrid* grid) {
  const size_t num_steps = grid->steps.size();
  for (size_t step = 0; step < num_steps; ++step) {
    for (RankCell& cell : std::span(grid->cells)) {
      if (static_cast<size_t>(&cell - grid->cells.data()) % num_steps != step) continue;
      cell.num_last = 0;
      cell.late_ns = cell.last_late_ns = 0;
    }
    const auto cell = [&](size_t rank) -> RankCell& {
      return grid->cells[rank * num_steps + step];
    };
    for (const int32_t slow : ranks) cell(static_cast<size_t>(slow)).late_ns = 10 * 3'000'000;
    for (size_t at = 0; at < kCollectives; ++at) {
      const size_t last = at == 0 ? 0 : static_cast<size_t>(ranks[(step + at) % ranks.size()]);
      ++cell(last).num_last;
      cell(last).last_late_ns += at == 0 ? 1000 : 3'000'000;
    }
  }
}

ScopedSteps Steps(int32_t first, int32_t last) {
  return {ScopeKind::kSteps, first, last, first, -1};
}

TEST(RankFindings, NoneOfEqualRanksIsNamed) {
  const RankGrid grid = EqualRanks(8, 20);
  const RankFindings findings = FindInRanks(grid, Steps(0, 19), {});
  EXPECT_FALSE(findings.straggler);
  ASSERT_EQ(findings.groups.size(), 1u);
  EXPECT_EQ(findings.groups[0].size(), 8u);
  EXPECT_EQ(findings.num_collectives, 20 * kCollectives);
  EXPECT_TRUE(RankSentence(findings).starts_with("No rank holds up the others"));
}

TEST(RankFindings, TheSlowRankIsNamedWithItsShare) {
  RankGrid grid = EqualRanks(64, 20);
  MakeSlow({37}, &grid);
  Front front;
  front.num_steps = 20;
  front.total_ns = 20 * kStepNs;
  for (int32_t step = 0; step < 20; ++step) {
    front.parts.push_back({step, "forward block0", 37, kStepNs / 4, 1'000'000});
    front.parts.push_back({step, "backward block3", 37, kStepNs / 2, 7'000'000});
    front.parts.push_back({step, "optimizer", 5, kStepNs / 4, 100'000});
  }
  const RankFindings findings = FindInRanks(grid, Steps(0, 19), front);
  ASSERT_TRUE(findings.straggler);
  EXPECT_EQ(findings.straggler->ranks, (std::vector<int32_t>{37}));
  EXPECT_EQ(findings.straggler->last_share, 0.9);
  EXPECT_EQ(findings.straggler->late_ns, 3'000'000);
  EXPECT_EQ(findings.straggler->delay_ns_per_step, 8'000'000);
  EXPECT_EQ(findings.straggler->delay_share, 0.08);
  EXPECT_EQ(findings.straggler->stage, "backward block3");
  EXPECT_EQ(RankSentence(findings),
            "Rank 37 comes last to 90% of its collectives, by 3.00 ms on average. This costs "
            "8.00 ms a step (8.0%), most of it in backward block3.");
  ASSERT_EQ(findings.groups.size(), 2u);
  EXPECT_EQ(findings.groups[0].size(), 63u);
  EXPECT_EQ(findings.groups[1], (std::vector<int32_t>{37}));
}

// Where the front shows the delay, it is the step that advice names.
TEST(RankFindings, TheWorstStepIsThatOfTheFrontWhereItIsShown) {
  RankGrid grid = EqualRanks(8, 20);
  MakeSlow({5}, &grid);
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) {
    if (cell == 5 * 20 + 3) grid.cells[cell].late_ns += 50'000'000;
  }
  Front front;
  EXPECT_EQ(FindInRanks(grid, Steps(0, 19), front).straggler->worst_step, 3);
  front.delays.push_back({.rank = 2, .is_lasting = true, .worst_step = 9});
  front.delays.push_back({.rank = 5, .is_lasting = true, .worst_step = 7});
  EXPECT_EQ(FindInRanks(grid, Steps(0, 19), front).straggler->worst_step, 7);
}

// Late to one collective of each step: too few for its share of the last places, and still all
// wait.
TEST(RankFindings, WhoeverTheFrontNamesIsNamed) {
  RankGrid grid = EqualRanks(8, 20);
  for (size_t cell = 0; cell < grid.cells.size(); ++cell) {
    if (cell / 20 != 5) grid.cells[cell].exposed_ns += 6'000'000;  // that the others wait
  }
  Front front;
  front.num_steps = 20;
  front.total_ns = 20 * kStepNs;
  for (int32_t step = 0; step < 20; ++step) {
    front.parts.push_back({step, "data", 5, kStepNs / 4, 6'000'000});
  }
  EXPECT_FALSE(FindInRanks(grid, Steps(0, 19), front).straggler);
  front.delays.push_back({.rank = 2, .stage = "optimizer", .is_lasting = false});
  EXPECT_FALSE(FindInRanks(grid, Steps(0, 19), front).straggler);
  front.delays.push_back({.rank = 5, .stage = "data", .is_lasting = true});
  const auto straggler = FindInRanks(grid, Steps(0, 19), front).straggler;
  ASSERT_TRUE(straggler);
  EXPECT_EQ(straggler->ranks, (std::vector<int32_t>{5}));
  EXPECT_EQ(straggler->delay_ns_per_step, 6'000'000);
  EXPECT_EQ(straggler->stage, "data");
  const RankFindings findings = FindInRanks(grid, Steps(0, 19), front);
  EXPECT_EQ(RankSentence(findings),
            "In most steps the others wait for rank 5, whose work takes longer; it comes last to " +
                FormatPercent(straggler->last_share) +
                " of its collectives, by 2.00 us on average. This costs 6.00 ms a step (6.0%), "
                "most of it in data.");
  // However much the times of steps vary.
  EXPECT_EQ(findings.groups.size(), 2u);
  for (size_t step = 0; step < 20; ++step) {
    for (size_t rank = 0; rank < 8; ++rank) {
      grid.cells[rank * 20 + step].exposed_ns += static_cast<int64_t>(step % 2) * 20'000'000;
    }
  }
  EXPECT_EQ(FindInRanks(grid, Steps(0, 19), front).groups.back(), (std::vector<int32_t>{5}));
}

// The sentence would contradict the table, which has them in one line.
TEST(RankFindings, OfEqualRanksTheFrontNamesNone) {
  for (const int num_ranks : {2, 8}) {
    const RankGrid grid = EqualRanks(num_ranks, 20);
    Front front;
    front.num_steps = 20;
    front.total_ns = 20 * kStepNs;
    for (int32_t step = 0; step < 20; ++step) {
      front.parts.push_back({step, "forward block0", 1, kStepNs / 4, 6'000'000});
    }
    front.delays.push_back({.rank = 1, .is_lasting = true});
    const RankFindings findings = FindInRanks(grid, Steps(0, 19), front);
    ASSERT_EQ(findings.groups.size(), 1u);
    EXPECT_FALSE(findings.straggler);
    EXPECT_TRUE(RankSentence(findings).starts_with("No rank holds up the others"));
  }
}

TEST(RankFindings, SeveralSlowRanksAreNamedTogether) {
  RankGrid grid = EqualRanks(64, 20);
  MakeSlow({8, 9, 10, 11, 12, 13, 14, 15}, &grid);
  const RankFindings findings = FindInRanks(grid, Steps(0, 19), {});
  ASSERT_TRUE(findings.straggler);
  EXPECT_EQ(findings.straggler->ranks.size(), 8u);
  EXPECT_EQ(findings.straggler->last_share, 0.9);
  EXPECT_EQ(RankSentence(findings),
            "Ranks 8 to 15 come last to 90% of all collectives, by 3.00 ms on average.");
}

TEST(RankFindings, OnceIsNotLasting) {
  RankGrid grid = EqualRanks(8, 20);
  RankGrid slow = grid;
  MakeSlow({3}, &slow);
  for (size_t rank = 0; rank < 8; ++rank) {
    for (size_t step = 0; step < 5; ++step) grid.cells[rank * 20 + step] = slow.At(rank, step);
  }
  EXPECT_FALSE(FindInRanks(grid, Steps(0, 19), {}).straggler);
  // In the five steps alone it is.
  const RankFindings five = FindInRanks(grid, Steps(0, 4), {});
  ASSERT_TRUE(five.straggler);
  EXPECT_EQ(five.straggler->ranks, (std::vector<int32_t>{3}));
}

TEST(RankFindings, LessThanClocksDisagreeIsNotLate) {
  RankGrid grid = EqualRanks(8, 20);
  MakeSlow({3}, &grid);
  EXPECT_TRUE(FindInRanks(grid, Steps(0, 19), {}, 2'900'000).straggler);
  EXPECT_FALSE(FindInRanks(grid, Steps(0, 19), {}, 3'100'000).straggler);
}

TEST(RankFindings, NothingToSay) {
  EXPECT_EQ(RankSentence(FindInRanks({}, Steps(0, 3), {})), "No step is finished yet.");
  RankGrid alone = EqualRanks(1, 3);
  for (RankCell& cell : alone.cells) cell.num_collectives = cell.num_last = 0;
  const RankFindings findings = FindInRanks(alone, Steps(0, 2), {});
  EXPECT_FALSE(findings.straggler);
  EXPECT_EQ(RankSentence(findings),
            "No collective is known of all its ranks: none waits for another.");
}

TEST(RankFindings, OfTheLessonWithASlowRank) {
  const query::SnapshotPtr snapshot = MakeLessonSnapshot(16, 12, 6, 11);
  const std::vector<StepBreakdown> steps = Breakdowns(*snapshot);
  const ScopedSteps scope = Resolve({}, steps, snapshot->markers);
  const Front front = MakeFront(FrontParts(*snapshot, scope.first_timed, scope.last));
  const RankFindings findings = FindInRanks(MakeRankGrid(*snapshot, steps), scope, front);
  ASSERT_TRUE(findings.straggler);
  EXPECT_EQ(findings.straggler->ranks, (std::vector<int32_t>{11}));
  EXPECT_GT(findings.straggler->delay_ns_per_step, 0);

  const query::SnapshotPtr even = MakeLessonSnapshot(16, 12, 6);
  const std::vector<StepBreakdown> even_steps = Breakdowns(*even);
  EXPECT_FALSE(
      FindInRanks(MakeRankGrid(*even, even_steps), Resolve({}, even_steps, even->markers), {})
          .straggler);
}

}  // namespace
}  // namespace shardscope::analysis
