#include "ui/panels/ranks/rank_strip.h"

#include <gtest/gtest.h>

#include <memory>
#include <utility>
#include <vector>

namespace shardscope::panels {
namespace {

using analysis::RankFigure;

// Rank r in step s takes (r + 1) * 1000 + s ns; rank 2 has not finished step 3.
analysis::RankOverview FourRanks() {
  analysis::RankGrid grid;
  grid.ranks = {0, 1, 2, 3};
  grid.steps = {10, 11, 12, 13};
  for (int64_t rank = 0; rank < 4; ++rank) {
    for (int64_t step = 0; step < 4; ++step) {
      analysis::RankCell cell;
      cell.is_finished = rank != 2 || step != 3;
      cell.step_ns = (rank + 1) * 1000 + step;
      cell.exposed_ns = cell.step_ns / 10;
      grid.cells.push_back(cell);
    }
  }
  analysis::RankOverview overview;
  overview.grid = std::make_shared<analysis::RankGrid>(std::move(grid));
  overview.scope = {analysis::ScopeKind::kWholeRun, 10, 13, 10, -1};
  overview.findings = FindInRanks(*overview.grid, overview.scope, {});
  return overview;
}

StripSettings SettingsOf(std::vector<int32_t> ranks) {
  StripSettings settings;
  settings.figure = RankFigure::kStepTime;
  settings.ranks = std::move(ranks);
  return settings;
}

TEST(RankStrip, ARowARankAColumnAStep) {
  const Strip strip = MakeStrip(FourRanks(), SettingsOf({0, 2, 3}));
  ASSERT_EQ(strip.rows.size(), 3u);
  EXPECT_EQ(strip.rows[1].label, "2");
  EXPECT_EQ(strip.num_columns, 4u);
  EXPECT_EQ(strip.At(1, 0).value, 3000);
  EXPECT_EQ(strip.At(1, 0).rank, 2);
  EXPECT_EQ(strip.At(1, 2).step, 12);
  EXPECT_TRUE(strip.At(1, 3).is_empty);
  EXPECT_EQ(strip.low, 1000);
  EXPECT_EQ(strip.largest, 4003);
  EXPECT_EQ(strip.ShareOf(1000), 0);
  EXPECT_EQ(strip.ShareOf(1e9), 1);
  EXPECT_EQ(*strip.rows[2].value, 4001.5);  // the median of its steps
}

// The first step takes ten times as long; only memory has it in its scale.
TEST(RankStrip, WarmUpLeavesColoursToTheStepsThatCount) {
  analysis::RankOverview overview = FourRanks();
  auto grid = std::make_shared<analysis::RankGrid>(*overview.grid);
  for (size_t rank = 0; rank < 4; ++rank) {
    analysis::RankCell& cell = grid->cells[rank * 4];
    cell.step_ns *= 10;
    cell.peak_bytes = 1000;
  }
  overview.grid = grid;
  overview.scope.first_timed = 11;
  StripSettings settings = SettingsOf({0, 1, 2, 3});
  Strip strip = MakeStrip(overview, settings);
  EXPECT_EQ(strip.low, 1001);
  EXPECT_LE(strip.high, 4003);
  EXPECT_EQ(strip.largest, 40000);
  EXPECT_EQ(strip.ShareOf(strip.At(3, 0).value), 1);
  settings.most_columns = 2;  // the column of step 10 is left out as a whole
  EXPECT_LE(MakeStrip(overview, settings).high, 4003);
  settings.figure = RankFigure::kMemory;
  EXPECT_EQ(MakeStrip(overview, settings).largest, 500);
  EXPECT_EQ(MakeStrip(overview, settings).high, 500);
  overview.scope.first_timed = 14;  // none counts: all are there
  settings.figure = RankFigure::kStepTime;
  EXPECT_GT(MakeStrip(overview, settings).high, 4003);
}

TEST(RankStrip, StepsFoldWhereThereIsNoRoom) {
  StripSettings settings = SettingsOf({2, 3});
  settings.most_columns = 3;
  const Strip strip = MakeStrip(FourRanks(), settings);
  EXPECT_EQ(strip.steps_a_column, 2u);
  ASSERT_EQ(strip.num_columns, 2u);
  EXPECT_EQ(strip.At(0, 0).value, 3000.5F);
  EXPECT_EQ(strip.At(0, 1).value, 3002);  // only one of the two is finished
  EXPECT_EQ(strip.At(0, 1).step, 12);
  EXPECT_EQ(strip.At(1, 1).step, 13);  // the larger one
}

TEST(RankStrip, SortedByValueTheLargestComesFirst) {
  StripSettings settings = SettingsOf({0, 1, 2, 3});
  settings.by_value = true;
  const Strip strip = MakeStrip(FourRanks(), settings);
  ASSERT_EQ(strip.rows.size(), 4u);
  EXPECT_EQ(strip.rows[0].label, "3");
  EXPECT_EQ(strip.rows[3].label, "0");
  EXPECT_EQ(strip.At(0, 0).rank, 3);
}

TEST(RankStrip, EqualRanksShareARow) {
  analysis::RankOverview overview = FourRanks();
  auto grid = std::make_shared<analysis::RankGrid>(*overview.grid);
  for (size_t step = 0; step < 4; ++step) {  // 0, 1 and 2 as one, 3 apart
    for (size_t rank = 0; rank < 3; ++rank) grid->cells[rank * 4 + step] = grid->cells[step];
  }
  overview.grid = grid;
  overview.findings = FindInRanks(*grid, overview.scope, {});
  StripSettings settings = SettingsOf({0, 1, 2, 3});
  settings.folds = true;
  const Strip strip = MakeStrip(overview, settings);
  ASSERT_EQ(strip.rows.size(), 2u);
  EXPECT_EQ(strip.rows[0].label, "0, 1, 2");
  EXPECT_EQ(strip.At(0, 1).value, 1001);
  EXPECT_EQ(strip.rows[1].label, "3");
}

}  // namespace
}  // namespace shardscope::panels
