#include <gtest/gtest.h>

#include <deque>

#include "ui/theme.h"
#include "ui/timeline/lane_source.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

// Ranks of which nothing has come, or one op on each of these lanes.
class Ranks {
 public:
  explicit Ranks(int count, const std::vector<LaneKind>& ran = {}) {
    for (int32_t rank = 0; rank < count; ++rank) {
      RankIndex& index = indices_.emplace_back(rank);
      index.op_runs->Append(query::OpRun());
      for (const LaneKind kind : ran) index.columns[static_cast<size_t>(kind)].Insert({});
    }
  }
  Layout MakeLayout(const std::set<int32_t>& folded, float scale) const {
    std::vector<RankLanes> lanes;
    for (const RankIndex& index : indices_) lanes.push_back(LanesOf(index));
    return timeline::MakeLayout(lanes, folded, scale);
  }

 private:
  std::deque<RankIndex> indices_;  // lanes point into them
};

TEST(LaneLayoutTest, LanesTileWithoutOverlapAndLieInTheirRank) {
  const Layout layout = Ranks(5).MakeLayout({1, 4}, 1.5F);
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
  const Layout layout = Ranks(1, {LaneKind::kAllReduce}).MakeLayout({}, 1);
  for (const Lane& lane : layout.lanes) EXPECT_NE(lane.source.kind, LaneKind::kAllGather);
  EXPECT_EQ(layout.lanes.size(), 4U);
}

TEST(LaneLayoutTest, AllReducesHaveALaneOfTheirOwn) {
  const Layout alone = Ranks(1, {LaneKind::kAllReduce}).MakeLayout({}, 1);
  ASSERT_EQ(alone.lanes.size(), 4U);
  EXPECT_EQ(alone.lanes[2].source.kind, LaneKind::kAllReduce);
  EXPECT_EQ(alone.lanes[3].source.kind, LaneKind::kExposed);
  const Layout beside =
      Ranks(1, {LaneKind::kAllGather, LaneKind::kReduceScatter, LaneKind::kAllReduce})
          .MakeLayout({}, 1);
  ASSERT_EQ(beside.lanes.size(), 6U);
  EXPECT_EQ(beside.lanes[3].source.kind, LaneKind::kReduceScatter);
  EXPECT_EQ(beside.lanes[4].source.kind, LaneKind::kAllReduce);
}

TEST(LaneLayoutTest, LanesOfOpsStandInTheirOrder) {
  const auto kinds = [](const std::vector<LaneKind>& ran) {
    std::vector<LaneKind> found;
    for (const Lane& lane : Ranks(1, ran).MakeLayout({}, 1).lanes) {
      found.push_back(lane.source.kind);
    }
    return found;
  };
  EXPECT_EQ(kinds({}),
            (std::vector<LaneKind>{LaneKind::kHost, LaneKind::kCompute, LaneKind::kAllGather,
                                   LaneKind::kReduceScatter, LaneKind::kExposed}));
  EXPECT_EQ(kinds({LaneKind::kCopy, LaneKind::kHostOptimizer, LaneKind::kToHost}),
            (std::vector<LaneKind>{LaneKind::kHost, LaneKind::kCompute, LaneKind::kToHost,
                                   LaneKind::kHostOptimizer, LaneKind::kAllGather,
                                   LaneKind::kReduceScatter, LaneKind::kExposed}));
  EXPECT_EQ(kinds({LaneKind::kSendActivation, LaneKind::kReceiveActivation, LaneKind::kTensor,
                   LaneKind::kSendGradient, LaneKind::kReceiveGradient, LaneKind::kAllGather}),
            (std::vector<LaneKind>{LaneKind::kHost, LaneKind::kCompute, LaneKind::kAllGather,
                                   LaneKind::kTensor, LaneKind::kReceiveActivation,
                                   LaneKind::kSendActivation, LaneKind::kReceiveGradient,
                                   LaneKind::kSendGradient, LaneKind::kExposed}));
}

TEST(LaneLayoutTest, OpsOfCopyStreamsAreToBeSeenAmongTheAllGathers) {
  EXPECT_EQ(LaneOf(query::TrackRole::kCopy), LaneKind::kCopy);
  EXPECT_EQ(LaneThatShows(query::TrackRole::kCopy), LaneKind::kAllGather);
  EXPECT_EQ(LaneThatShows(query::TrackRole::kToHost), LaneKind::kToHost);
  const RankIndex rank(0);
  EXPECT_EQ(OpLane(rank, kLaneOfCopies).strip, &rank.column(LaneKind::kCopy));
  EXPECT_EQ(OpLane(rank, LaneKind::kReduceScatter).strip, nullptr);
}

TEST(LaneLayoutTest, VisibleLanesAreThoseThatTouch) {
  const Layout layout = Ranks(6).MakeLayout({2, 3}, 1);
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
  const Layout before = Ranks(6).MakeLayout({}, 1);
  const Layout after = Ranks(6).MakeLayout({0, 1}, 1);
  const float scroll = before.ranks[3].y - 40;
  const float mouse_y = 60;  // 20 pixels into rank 3
  const float moved = AnchoredScroll(before, after, scroll, mouse_y);
  EXPECT_FLOAT_EQ(after.ranks[3].y - moved, before.ranks[3].y - scroll);
}

}  // namespace
}  // namespace shardscope::timeline
