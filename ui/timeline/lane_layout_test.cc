#include "ui/timeline/lane_layout.h"

#include <gtest/gtest.h>

#include "ui/theme.h"

namespace shardscope::timeline {
namespace {

std::vector<RankLanes> Ranks(int count) {
  std::vector<RankLanes> ranks;
  for (int32_t rank = 0; rank < count; ++rank) ranks.push_back({rank, true});
  return ranks;
}

TEST(LaneLayoutTest, LanesTileWithoutOverlapAndLieInTheirRank) {
  const Layout layout = MakeLayout(Ranks(5), {1, 4}, 1.5F);
  ASSERT_EQ(layout.ranks.size(), 5U);
  float y = 0;
  for (const RankBlock& block : layout.ranks) {
    EXPECT_FLOAT_EQ(block.y, y);
    EXPECT_EQ(block.num_lanes, block.folded ? 1U : 5U);
    float lane_y = block.y;
    for (size_t at = block.first_lane; at < block.first_lane + block.num_lanes; ++at) {
      const Lane& lane = layout.lanes[at];
      EXPECT_EQ(lane.rank, block.rank);
      EXPECT_GE(lane.y, lane_y);
      lane_y = lane.y + lane.height;
    }
    EXPECT_LE(lane_y, block.y + block.height);
    y += block.height;
  }
  EXPECT_FLOAT_EQ(layout.height, y);
  EXPECT_TRUE(layout.ranks[1].folded);
  EXPECT_FLOAT_EQ(layout.lanes[layout.ranks[1].first_lane].height, ui::kFoldedRankHeight * 1.5F);
}

TEST(LaneLayoutTest, WithoutAllGathersThereIsNoSuchLane) {
  const Layout layout = MakeLayout({{0, false}}, {}, 1);
  for (const Lane& lane : layout.lanes) EXPECT_NE(lane.kind, LaneKind::kAllGather);
  EXPECT_EQ(layout.lanes.size(), 4U);
}

TEST(LaneLayoutTest, AllReducesHaveALaneOfTheirOwn) {
  const Layout alone = MakeLayout(
      {{.rank = 0, .all_gather = false, .reduce_scatter = false, .all_reduce = true}}, {}, 1);
  ASSERT_EQ(alone.lanes.size(), 4U);
  EXPECT_EQ(alone.lanes[2].kind, LaneKind::kAllReduce);
  EXPECT_EQ(alone.lanes[3].kind, LaneKind::kExposed);
  const Layout beside = MakeLayout({{.rank = 0, .all_reduce = true}}, {}, 1);
  ASSERT_EQ(beside.lanes.size(), 6U);
  EXPECT_EQ(beside.lanes[3].kind, LaneKind::kReduceScatter);
  EXPECT_EQ(beside.lanes[4].kind, LaneKind::kAllReduce);
}

TEST(LaneLayoutTest, VisibleLanesAreThoseThatTouch) {
  const Layout layout = MakeLayout(Ranks(6), {2, 3}, 1);
  for (float top = -50; top < layout.height + 50; top += 7) {
    const float bottom = top + 60;
    const auto [first, last] = VisibleLanes(layout, top, bottom);
    for (size_t at = 0; at < layout.lanes.size(); ++at) {
      const Lane& lane = layout.lanes[at];
      const bool touches = lane.y < bottom && lane.y + lane.height > top;
      EXPECT_EQ(at >= first && at < last, touches) << at << " at " << top;
    }
  }
}

TEST(LaneLayoutTest, FoldingAboveKeepsTheRankUnderTheMouse) {
  const Layout before = MakeLayout(Ranks(6), {}, 1);
  const Layout after = MakeLayout(Ranks(6), {0, 1}, 1);
  const float scroll = before.ranks[3].y - 40;
  const float mouse_y = 60;  // 20 pixels into rank 3
  const float moved = AnchoredScroll(before, after, scroll, mouse_y);
  EXPECT_FLOAT_EQ(after.ranks[3].y - moved, before.ranks[3].y - scroll);
}

}  // namespace
}  // namespace shardscope::timeline
