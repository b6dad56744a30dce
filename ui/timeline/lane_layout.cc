#include "ui/timeline/lane_layout.h"

#include <algorithm>
#include <span>

#include "ui/timeline/geometry.h"

namespace shardscope::timeline {
namespace {

// Levels of one thread nearly touch.
bool SameThread(const LaneSource& a, const LaneSource& b) {
  return a.kind == LaneKind::kThread && a.track == b.track;
}

}  // namespace

Layout MakeLayout(const std::vector<RankLanes>& ranks, const std::set<int32_t>& folded,
                  float scale) {
  Layout layout;
  float y = 0;
  for (const RankLanes& rank : ranks) {
    RankBlock block;
    block.rank = rank.rank;
    block.folded = folded.contains(rank.rank);
    block.y = y;
    block.first_lane = layout.lanes.size();
    y += kRankPadding * scale;
    // The name of a thread is as long as the gutter: it stands under the rank's.
    if (!rank.ops && !block.folded) y += kRankNameHeight * scale;
    const std::span<const LaneSource> shown =
        block.folded ? std::span(&rank.folded, 1) : std::span(rank.lanes);
    for (const LaneSource& source : shown) {
      const bool first = layout.lanes.size() == block.first_lane;
      if (!first && SameThread(layout.lanes.back().source, source)) y -= (ui::kLaneGap - 1) * scale;
      layout.lanes.push_back({source, rank.rank, y, source.height * scale});
      y += (source.height + ui::kLaneGap) * scale;
    }
    y += (kRankPadding - ui::kLaneGap) * scale;
    block.num_lanes = layout.lanes.size() - block.first_lane;
    block.height = y - block.y;
    layout.ranks.push_back(block);
  }
  layout.height = y;
  return layout;
}

std::pair<size_t, size_t> VisibleLanes(const Layout& layout, float top, float bottom) {
  const auto first =
      std::partition_point(layout.lanes.begin(), layout.lanes.end(),
                           [top](const Lane& lane) { return lane.y + lane.height <= top; });
  const auto last = std::partition_point(first, layout.lanes.end(),
                                         [bottom](const Lane& lane) { return lane.y < bottom; });
  return {static_cast<size_t>(first - layout.lanes.begin()),
          static_cast<size_t>(last - layout.lanes.begin())};
}

float AnchoredScroll(const Layout& before, const Layout& after, float scroll, float mouse_y) {
  const float y = scroll + mouse_y;
  for (const RankBlock& block : before.ranks) {
    if (y < block.y || y >= block.y + block.height) continue;
    for (const RankBlock& moved : after.ranks) {
      if (moved.rank == block.rank) return std::max(0.0F, scroll + moved.y - block.y);
    }
  }
  return scroll;
}

}  // namespace shardscope::timeline
