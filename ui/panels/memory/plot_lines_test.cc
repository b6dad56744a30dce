// Where labels of lines stand that lie near one another.
#include "ui/panels/memory/plot_lines.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

namespace shardscope::panels {
namespace {

constexpr ui::Box kPlotBounds = {0, 0, 400, 100};
constexpr float kLabelHeight = 13;
constexpr float kGap = 2;
constexpr float kApart = 10;

// With lines as wide as the plot.
LabelField FieldOf(const std::vector<LabelSize>& labels) {
  LabelField field{kPlotBounds, kLabelHeight, kGap, kApart, {}};
  for (const LabelSize& label : labels) field.lines.push_back({0, label.line_y, 400, label.line_y});
  return field;
}

std::vector<LabelRow> Placed(const std::vector<LabelSize>& labels) {
  return PlaceLabels(labels, FieldOf(labels));
}

using Labels = std::vector<size_t>;

TEST(PlaceLabels, EachStandsOverItsOwnLineIfThereIsRoom) {
  const std::vector<LabelRow> rows = Placed({{80, 150}, {52, 120}, {30, 100, true}});
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0].labels, Labels{2});
  EXPECT_EQ(rows[0].box, (ui::Box{0, 15, 100, 28}));  // at the left
  EXPECT_EQ(rows[1].labels, Labels{1});
  EXPECT_EQ(rows[1].box, (ui::Box{280, 37, 400, 50}));
  EXPECT_EQ(rows[2].labels, Labels{0});
  EXPECT_EQ(rows[2].box, (ui::Box{250, 65, 400, 78}));
}

// "predicted 26.2 MB · at most 28.0 MB" over both.
TEST(PlaceLabels, LinesThatLieNearOneAnotherShareARow) {
  const std::vector<LabelRow> rows = Placed({{50, 150}, {46, 120}});
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].labels, (Labels{0, 1}));
  EXPECT_EQ(rows[0].box, (ui::Box{120, 31, 400, 44}));
  // Whichever comes first, the lower one stands first.
  EXPECT_EQ(Placed({{46, 120}, {50, 150}})[0].labels, (Labels{1, 0}));
}

TEST(PlaceLabels, WhereTheyDoNotFitTheLowerOneStandsUnderItsLine) {
  const std::vector<LabelRow> rows = Placed({{50, 250}, {46, 180}});
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].labels, Labels{1});
  EXPECT_EQ(rows[0].box, (ui::Box{220, 31, 400, 44}));
  EXPECT_EQ(rows[1].labels, Labels{0});
  EXPECT_EQ(rows[1].box, (ui::Box{150, 52, 400, 65}));
}

TEST(PlaceLabels, WithoutRoomThereIsNone) {
  EXPECT_TRUE(Placed({{50, 401}}).empty());
  // The higher one alone.
  const std::vector<LabelRow> low = Placed({{94, 250}, {90, 180}});
  ASSERT_EQ(low.size(), 1u);
  EXPECT_EQ(low[0].labels, Labels{1});
  // At the top under its line.
  const std::vector<LabelRow> top = Placed({{8, 100}});
  ASSERT_EQ(top.size(), 1u);
  EXPECT_EQ(top[0].box, (ui::Box{300, 10, 400, 23}));
}

// Of a Schedule before this one.
TEST(PlaceLabels, NoLabelCrossesALineThatIsThereBesides) {
  const std::vector<LabelSize> labels = {{50, 150}, {46, 120}};
  LabelField field = FieldOf({});
  field.lines = {{200, 50, 400, 50}, {200, 46, 400, 46}, {0, 40, 200, 40}};
  const std::vector<LabelRow> rows = PlaceLabels(labels, field);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].box, (ui::Box{280, 31, 400, 44}));
  EXPECT_EQ(rows[1].box, (ui::Box{250, 52, 400, 65}));
}

// Wherever three lines lie: no line of another lies between a label and its own, but of those that
// share the row, which stand in the order of their lines.
TEST(PlaceLabels, NoneIsTakenForAnotherLines) {
  std::mt19937 random(5);
  const auto below = [&random](uint32_t end) { return static_cast<float>(random() % end); };
  int num_shared = 0;
  int num_split = 0;
  for (int round = 0; round < 2000; ++round) {
    std::vector<LabelSize> labels;
    for (int at = 0; at < 3; ++at) labels.push_back({20 + below(70), 80 + below(150), at == 2});
    const std::vector<LabelRow> rows = Placed(labels);
    num_split += rows.size() > 1 ? 1 : 0;
    std::optional<ui::Box> last;
    for (const LabelRow& row : rows) {
      const ui::Box& box = row.box;
      num_shared += row.labels.size() > 1 ? 1 : 0;
      EXPECT_GE(box.x0, 0);
      EXPECT_LE(box.x1, 400);
      EXPECT_GE(box.y0, 0);
      EXPECT_LE(box.y1, 100);
      if (last) {
        EXPECT_GE(box.y0, last->y1);
      }
      last = box;
      for (size_t at = 0; at < row.labels.size(); ++at) {
        const float own = labels[row.labels[at]].line_y;
        if (at > 0) {
          EXPECT_LE(own, labels[row.labels[at - 1]].line_y);
        }
        for (size_t other = 0; other < labels.size(); ++other) {
          const float y = labels[other].line_y;
          EXPECT_TRUE(y <= box.y0 - kGap || y >= box.y1 + kGap);  // none crosses it
          if (std::ranges::count(row.labels, other) > 0) continue;
          EXPECT_FALSE(own > box.y1 ? y > box.y1 && y < own : y < box.y0 && y > own);
        }
      }
    }
  }
  EXPECT_GT(num_shared, 100);
  EXPECT_GT(num_split, 100);
}

}  // namespace
}  // namespace shardscope::panels
