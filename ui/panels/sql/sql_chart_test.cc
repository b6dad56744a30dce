#include "ui/panels/sql/sql_chart.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace shardscope::panels {
namespace {

using query::Cell;
using query::SelectedRows;

SelectedRows RowsOf(std::vector<std::string> names, std::vector<std::vector<Cell>> cells) {
  SelectedRows rows;
  rows.names = std::move(names);
  rows.rows = std::move(cells);
  return rows;
}

TEST(SqlChart, DrawsNumbersOverTheFirstColumnIfThatHasNumbers) {
  SelectedRows rows = RowsOf({"step", "name", "step_ns", "none", "loss", "mixed"}, {});
  rows.rows = {{int64_t{0}, std::string("a"), int64_t{5}, {}, {}, int64_t{1}},
               {int64_t{1}, std::string("b"), int64_t{6}, {}, 2.5, std::string("x")}};
  ChartColumns columns = ColumnsToChart(rows);
  EXPECT_EQ(columns.x, 0u);
  EXPECT_EQ(columns.y, (std::vector<size_t>{2, 4}));

  std::swap(rows.names[0], rows.names[1]);
  for (std::vector<Cell>& row : rows.rows) std::swap(row[0], row[1]);
  columns = ColumnsToChart(rows);
  EXPECT_EQ(columns.x, std::nullopt);
  EXPECT_EQ(columns.y, (std::vector<size_t>{1, 2, 4}));

  EXPECT_TRUE(ColumnsToChart(RowsOf({"name"}, {{std::string("a")}})).y.empty());
  EXPECT_TRUE(ColumnsToChart(RowsOf({"n"}, {})).y.empty());
  // Alone it is drawn over the rows.
  columns = ColumnsToChart(RowsOf({"n"}, {{int64_t{1}}}));
  EXPECT_EQ(columns.x, std::nullopt);
  EXPECT_EQ(columns.y, (std::vector<size_t>{0}));
}

TEST(SqlChart, DrawsAtMostSixColumns) {
  SelectedRows rows;
  rows.rows.emplace_back();
  for (int column = 0; column < 10; ++column) {
    rows.names.push_back(std::to_string(column));
    rows.rows[0].emplace_back(int64_t{column});
  }
  const ChartColumns columns = ColumnsToChart(rows);
  EXPECT_EQ(columns.x, 0u);
  EXPECT_EQ(columns.y, (std::vector<size_t>{1, 2, 3, 4, 5, 6}));
  rows.rows[0][0] = std::string("a");
  EXPECT_EQ(ColumnsToChart(rows).y, (std::vector<size_t>{1, 2, 3, 4, 5, 6}));
}

TEST(SqlChart, EveryExtremeOfAPixelIsKeptWithItsRow) {
  constexpr int kRows = 100'000;
  constexpr int kWidth = 500;
  SelectedRows rows = RowsOf({"value"}, {});
  for (int row = 0; row < kRows; ++row) rows.rows.push_back({int64_t{row % 7}});
  rows.rows[54'321] = {int64_t{1000}};
  rows.rows[54'322] = {int64_t{-1000}};
  const SqlPlot plot = PlotOf(rows, ColumnsToChart(rows), kWidth);
  ASSERT_EQ(plot.series.size(), 1u);
  const std::vector<ChartPoint>& points = plot.series[0].points;
  EXPECT_EQ(points.size(), static_cast<size_t>(kWidth));
  EXPECT_EQ(points.front().first, 0);
  EXPECT_EQ(points.back().last, (kRows - 1) % 7);
  EXPECT_EQ(plot.x.low, 1);
  EXPECT_EQ(plot.x.high, kRows);
  int pixel = 0;
  for (const ChartPoint& point : points) {
    if (point.high == 1000) pixel = point.pixel;
  }
  EXPECT_EQ(points[static_cast<size_t>(pixel)].low, -1000);
  EXPECT_EQ(NearestRow(plot, ChartUnit::kNone, pixel, 900), 54'321u);
  EXPECT_EQ(NearestRow(plot, ChartUnit::kNone, pixel, -900), 54'322u);
  EXPECT_EQ(NearestRow(plot, ChartUnit::kBytes, pixel, 0), std::nullopt);
}

TEST(SqlChart, WhatHasNoPlaceIsLeftOut) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  SelectedRows rows = RowsOf({"step", "a_ns", "b_bytes", "c_ns"}, {});
  rows.rows = {{int64_t{9}, int64_t{50}, int64_t{7}, 40.0},  // not in order
               {int64_t{0}, int64_t{100}, {}, kInfinity},
               {{}, int64_t{1'000'000}, int64_t{1'000'000}, 1e6}};
  const SqlPlot plot = PlotOf(rows, ColumnsToChart(rows), 10);
  ASSERT_EQ(plot.series.size(), 3u);
  ASSERT_EQ(plot.series[0].points.size(), 2u);
  EXPECT_EQ(plot.series[0].points[0].pixel, 0);
  EXPECT_EQ(plot.series[0].points[0].low, 100);
  EXPECT_EQ(plot.series[0].points[1].pixel, 9);
  EXPECT_EQ(plot.series[1].points.size(), 1u);
  EXPECT_EQ(plot.series[2].points.size(), 1u);
  ASSERT_EQ(plot.units, (std::vector<ChartUnit>{ChartUnit::kNs, ChartUnit::kBytes}));
  EXPECT_LE(plot.ranges[0].low, 40);
  EXPECT_GE(plot.ranges[0].high, 100);
  EXPECT_LT(plot.ranges[0].high, 200);
  EXPECT_EQ(NearestRow(plot, ChartUnit::kNs, 8, 51), 0u);
  EXPECT_EQ(NearestRow(plot, ChartUnit::kNs, 1, 51), 1u);
}

TEST(SqlChart, TicksAreRoundAndEnd) {
  const ChartTicks ticks = TicksOf({0, 10}, 5);
  EXPECT_EQ(ticks.step, 2);
  EXPECT_EQ(ticks.values, (std::vector<double>{0, 2, 4, 6, 8, 10}));
  EXPECT_EQ(TicksOf({7, 7}, 5).values, (std::vector<double>{7}));
  const double most = std::numeric_limits<double>::max();
  for (const auto& [low, high] : {std::pair(-most, most), {1e18, 1e18 + 256}, {0.0, 1e-300}}) {
    EXPECT_LE(TicksOf({low, high}, 5).values.size(), 6u);
    EXPECT_LE(std::abs(ChartRange{low, high}.Share(high) - 1), 1e-9);
  }
}

TEST(SqlChart, LabelsHaveTheUnitOfTheColumnAndTheDigitsOfTheStep) {
  EXPECT_EQ(UnitOfColumn("step_ns"), ChartUnit::kNs);
  EXPECT_EQ(UnitOfColumn("step_ms"), ChartUnit::kMs);
  EXPECT_EQ(UnitOfColumn("payload_bytes"), ChartUnit::kBytes);
  EXPECT_EQ(UnitOfColumn("step"), ChartUnit::kNone);
  EXPECT_EQ(TickText(ChartUnit::kNs, 0, 500), "0");
  EXPECT_EQ(TickText(ChartUnit::kNs, 1'500'000, 500'000), "1.5 ms");
  EXPECT_EQ(TickText(ChartUnit::kNs, 100'002'000'000, 1'000'000), "100.002 s");
  EXPECT_EQ(TickText(ChartUnit::kMs, 0.25, 0.05), "250 µs");
  EXPECT_EQ(TickText(ChartUnit::kBytes, 20'000'000, 5'000'000), "20 MB");
  EXPECT_EQ(TickText(ChartUnit::kNone, 12'345, 5), "12345");
  EXPECT_EQ(TickText(ChartUnit::kNone, 2'000'000, 1'000'000), "2 M");
  EXPECT_EQ(TickText(ChartUnit::kNone, 0.3, 0.1), "0.3");
  EXPECT_EQ(TickText(ChartUnit::kNone, 7, 0), "7");
  EXPECT_LT(TickText(ChartUnit::kNs, 1e300, 1e299).size(), 20u);
}

}  // namespace
}  // namespace shardscope::panels
