#include "ui/timeline/lane_layout.h"

#include <algorithm>

#include "ui/timeline/geometry.h"

namespace shardscope::timeline {
namespace {

float HeightOf(LaneKind kind) {
  switch (kind) {
    case LaneKind::kHost:
      return ui::kHostLaneHeight;
    case LaneKind::kCompute:
      return ui::kComputeLaneHeight;
    case LaneKind::kAllGather:
    case LaneKind::kReduceScatter:
    case LaneKind::kAllReduce:
      return ui::kCommunicationLaneHeight;
    case LaneKind::kExposed:
      return ui::kExposedLaneHeight;
    case LaneKind::kStream:
      return ui::kStreamLaneHeight;
    case LaneKind::kThread:
      return ui::kThreadLaneHeight;
    case LaneKind::kCopy:
    case LaneKind::kFolded:
      break;
  }
  return ui::kFoldedRankHeight;
}

Lane LaneOfKind(LaneKind kind) {
  Lane lane;
  lane.kind = kind;
  return lane;
}

void AddOps(const RankLanes& rank, std::vector<Lane>* lanes) {
  lanes->push_back(LaneOfKind(LaneKind::kHost));
  lanes->push_back(LaneOfKind(LaneKind::kCompute));
  if (rank.all_gather) lanes->push_back(LaneOfKind(LaneKind::kAllGather));
  if (rank.reduce_scatter) lanes->push_back(LaneOfKind(LaneKind::kReduceScatter));
  if (rank.all_reduce) lanes->push_back(LaneOfKind(LaneKind::kAllReduce));
  lanes->push_back(LaneOfKind(LaneKind::kExposed));
}

void AddStreams(const RankLanes& rank, std::vector<Lane>* lanes) {
  for (const uint16_t stream : rank.streams) {
    lanes->push_back(LaneOfKind(LaneKind::kStream));
    lanes->back().track = stream;
  }
}

// Outer ranges above the inner ones.
void AddThreads(const RankLanes& rank, std::vector<Lane>* lanes) {
  for (const ThreadLanes& thread : rank.threads) {
    for (int level = thread.levels; level-- > 0;) {
      lanes->push_back(LaneOfKind(LaneKind::kThread));
      lanes->back().track = thread.thread;
      lanes->back().level = static_cast<uint16_t>(level);
    }
  }
}

// From the top. The threads of a recorded program launch what its streams do; under a Schedule the
// host lane says that, and the ranges of libraries come last.
std::vector<Lane> LanesOf(const RankLanes& rank, bool folded) {
  if (folded) return {LaneOfKind(LaneKind::kFolded)};
  std::vector<Lane> lanes;
  if (rank.ops) AddOps(rank, &lanes);
  if (!rank.ops) AddThreads(rank, &lanes);
  AddStreams(rank, &lanes);
  if (rank.ops) AddThreads(rank, &lanes);
  return lanes;
}

// Levels of one thread nearly touch.
bool SameThread(const Lane& a, const Lane& b) {
  return a.kind == LaneKind::kThread && b.kind == LaneKind::kThread && a.track == b.track;
}

}  // namespace

LaneKind LaneOf(query::TrackRole role) {
  switch (role) {
    case query::TrackRole::kHost:
      return LaneKind::kHost;
    case query::TrackRole::kCompute:
      return LaneKind::kCompute;
    case query::TrackRole::kCopy:
      return LaneKind::kCopy;
    case query::TrackRole::kAllGather:
      return LaneKind::kAllGather;
    case query::TrackRole::kReduceScatter:
      return LaneKind::kReduceScatter;
    case query::TrackRole::kAllReduce:
      break;
  }
  return LaneKind::kAllReduce;
}

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
    for (Lane lane : LanesOf(rank, block.folded)) {
      const bool first = layout.lanes.size() == block.first_lane;
      if (!first && SameThread(layout.lanes.back(), lane)) y -= (ui::kLaneGap - 1) * scale;
      lane.rank = rank.rank;
      lane.y = y;
      lane.height = HeightOf(lane.kind) * scale;
      layout.lanes.push_back(lane);
      y += (HeightOf(lane.kind) + ui::kLaneGap) * scale;
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
