// Where labels of lines stand that lie near one another.
#include "ui/panels/memory/plot_lines.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace shardscope::panels {
namespace {

constexpr ui::Box kPlotBounds = {0, 0, 400, 100};
constexpr float kLabelHeight = 13;

ui::Box RightLabel(float y) { return {200, y, 396, y + kLabelHeight}; }

TEST(LabelRoom, ALabelStaysWhereItIsWantedIfThereIsRoom) {
  LabelRoom room(kPlotBounds, 2);
  room.AddLine(0, 400, 50);
  EXPECT_EQ(room.Take(RightLabel(52)), RightLabel(52));
  EXPECT_EQ(room.Take(RightLabel(35)), RightLabel(35));
}

TEST(LabelRoom, LabelsStandClearOfLinesAndOfOneAnother) {
  const std::array<float, 3> lines = {40, 44, 46};  // a limit, a bound and a peak
  LabelRoom room(kPlotBounds, 2);
  for (const float y : lines) room.AddLine(0, 400, y);
  std::vector<ui::Box> taken;
  for (const ui::Box& wanted :
       {RightLabel(48), RightLabel(29), ui::Box{4, 42, 150, 42 + kLabelHeight}}) {
    const auto box = room.Take(wanted);
    ASSERT_TRUE(box);
    EXPECT_EQ(box->x0, wanted.x0);
    for (const float y : lines) EXPECT_TRUE(box->y1 < y || box->y0 > y);
    for (const ui::Box& other : taken) {
      EXPECT_TRUE(box->x1 <= other.x0 || other.x1 <= box->x0 || box->y1 <= other.y0 + 0.1F ||
                  other.y1 <= box->y0 + 0.1F);
    }
    taken.push_back(*box);
  }
  // Lines elsewhere are in the way of none.
  room.AddLine(0, 100, 80);
  EXPECT_EQ(room.Take(RightLabel(74)), RightLabel(74));
}

TEST(LabelRoom, ALabelKeepsOffWhatLiesBelow) {
  LabelRoom room(kPlotBounds, 2);
  room.AddLine(0, 400, 50);
  EXPECT_EQ(room.Take(RightLabel(52), 60.0F), RightLabel(48 - kLabelHeight));  // over the line
  EXPECT_EQ(room.Take(RightLabel(20), 30.0F), RightLabel(30 - kLabelHeight));
  EXPECT_FALSE(room.Take(RightLabel(52), 10.0F));
  EXPECT_EQ(room.Take(RightLabel(52)), RightLabel(52));
  EXPECT_EQ(room.labels().size(), 3u);
}

TEST(LabelRoom, WithoutRoomThereIsNone) {
  LabelRoom room({0, 0, 400, 20}, 2);
  room.AddLine(0, 400, 10);
  EXPECT_FALSE(room.Take(RightLabel(12)));
}

}  // namespace
}  // namespace shardscope::panels
