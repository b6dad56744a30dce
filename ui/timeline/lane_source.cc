#include "ui/timeline/lane_source.h"

#include <algorithm>
#include <span>

#include "ui/theme.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

using query::OpClass;

// What all lanes of a kind have in common.
struct KindTraits {
  float height = 0;
  OpClass op_class = OpClass::kForward;
  std::optional<ui::Text> title = {};
};

KindTraits TraitsOf(LaneKind kind) {
  switch (kind) {
    case LaneKind::kHost:
      return {ui::kHostLaneHeight, OpClass::kHost, ui::Text::kHost};
    case LaneKind::kCompute:
      return {ui::kComputeLaneHeight, OpClass::kForward, ui::Text::kCompute};
    case LaneKind::kCopy:
      return {ui::kCommunicationLaneHeight, OpClass::kCopy};
    case LaneKind::kToDevice:
      return {ui::kCommunicationLaneHeight, OpClass::kCopy, ui::Text::kToDevice};
    case LaneKind::kToHost:
      return {ui::kCommunicationLaneHeight, OpClass::kCopy, ui::Text::kToHost};
    case LaneKind::kHostOptimizer:
      return {ui::kCommunicationLaneHeight, OpClass::kOptimizer, ui::Text::kHostOptimizer};
    case LaneKind::kAllGather:
      return {ui::kCommunicationLaneHeight, OpClass::kAllGather, ui::Text::kAllGather};
    case LaneKind::kReduceScatter:
      return {ui::kCommunicationLaneHeight, OpClass::kReduceScatter, ui::Text::kReduceScatter};
    case LaneKind::kAllReduce:
      return {ui::kCommunicationLaneHeight, OpClass::kAllReduce, ui::Text::kAllReduce};
    case LaneKind::kBroadcast:
      return {ui::kCommunicationLaneHeight, OpClass::kBroadcast, ui::Text::kBroadcast};
    case LaneKind::kReduce:
      return {ui::kCommunicationLaneHeight, OpClass::kReduce, ui::Text::kReduce};
    case LaneKind::kTensor:
      return {ui::kCommunicationLaneHeight, OpClass::kAllReduce, ui::Text::kTensor};
    case LaneKind::kSendActivation:
      return {ui::kCommunicationLaneHeight, OpClass::kSendReceive, ui::Text::kSendActivation};
    case LaneKind::kReceiveActivation:
      return {ui::kCommunicationLaneHeight, OpClass::kSendReceive, ui::Text::kReceiveActivation};
    case LaneKind::kSendGradient:
      return {ui::kCommunicationLaneHeight, OpClass::kSendReceive, ui::Text::kSendGradient};
    case LaneKind::kReceiveGradient:
      return {ui::kCommunicationLaneHeight, OpClass::kSendReceive, ui::Text::kReceiveGradient};
    case LaneKind::kExposed:
      return {ui::kExposedLaneHeight, OpClass::kAllGather, ui::Text::kExposed};
    case LaneKind::kFolded:
      return {ui::kFoldedRankHeight};
    case LaneKind::kStream:
      return {ui::kStreamLaneHeight};
    case LaneKind::kThread:
      return {ui::kThreadLaneHeight};
  }
  return {};
}

LaneSource SourceOf(const RankIndex& rank, LaneKind kind) {
  const KindTraits traits = TraitsOf(kind);
  LaneSource source;
  source.kind = kind;
  source.rank = &rank;
  source.height = traits.height;
  source.title = traits.title;
  source.op_class = traits.op_class;
  return source;
}

LaneSource StreamLane(const RankIndex& rank, const TrackLane& stream) {
  LaneSource source = SourceOf(rank, LaneKind::kStream);
  source.rows = LaneRows::kWork;
  source.track = &stream;
  source.spans = &stream.levels.front();
  source.track_name = stream.name;
  source.op_class = stream.op_class;
  return source;
}

LaneSource ThreadLane(const RankIndex& rank, const TrackLane& thread, size_t level) {
  LaneSource source = SourceOf(rank, LaneKind::kThread);
  source.rows = LaneRows::kRanges;
  source.track = &thread;
  source.level = static_cast<uint16_t>(level);
  source.spans = &thread.levels[level];
  if (level + 1 == thread.levels.size()) source.track_name = thread.name;
  source.op_class = thread.op_class;
  return source;
}

// Of ranks that are not alike, or share layers.
constexpr LaneKind kModelLanes[] = {LaneKind::kBroadcast,      LaneKind::kReduce,
                                    LaneKind::kTensor,         LaneKind::kReceiveActivation,
                                    LaneKind::kSendActivation, LaneKind::kReceiveGradient,
                                    LaneKind::kSendGradient};

void AddOps(const RankIndex& rank, std::vector<LaneSource>* lanes) {
  const auto ran = [&rank](LaneKind kind) { return !rank.column(kind).empty(); };
  const bool all_reduces = ran(LaneKind::kAllReduce);
  lanes->push_back(OpLane(rank, LaneKind::kHost));
  lanes->push_back(OpLane(rank, LaneKind::kCompute));
  // What shards has these two, before its first collective too.
  const bool shards = !all_reduces && std::ranges::none_of(kModelLanes, ran);
  for (const LaneKind kind : {LaneKind::kToDevice, LaneKind::kToHost, LaneKind::kHostOptimizer}) {
    if (ran(kind)) lanes->push_back(OpLane(rank, kind));
  }
  for (const LaneKind kind : {LaneKind::kAllGather, LaneKind::kReduceScatter}) {
    if (shards || ran(kind)) lanes->push_back(OpLane(rank, kind));
  }
  if (all_reduces) lanes->push_back(OpLane(rank, LaneKind::kAllReduce));
  for (const LaneKind kind : kModelLanes) {
    if (ran(kind)) lanes->push_back(OpLane(rank, kind));
  }
  lanes->push_back(OpLane(rank, LaneKind::kExposed));
}

void AddStreams(const RankIndex& rank, std::vector<LaneSource>* lanes) {
  for (const uint16_t stream : rank.tracks.StreamsInOrder()) {
    lanes->push_back(StreamLane(rank, rank.tracks.streams()[stream]));
  }
}

// Outer ranges above the inner ones.
void AddThreads(const RankIndex& rank, std::vector<LaneSource>* lanes) {
  for (const uint16_t at : rank.tracks.ThreadsInOrder()) {
    const TrackLane& thread = rank.tracks.threads()[at];
    for (size_t level = thread.levels.size(); level-- > 0;) {
      lanes->push_back(ThreadLane(rank, thread, level));
    }
  }
}

bool HasOps(const RankIndex& rank) {
  return std::any_of(rank.columns.begin(), rank.columns.end(),
                     [](const SpanColumn& column) { return !column.empty(); });
}

// Levels of one thread nearly touch.
bool SameThread(const LaneSource& a, const LaneSource& b) {
  return a.kind == LaneKind::kThread && a.track == b.track;
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
    case query::TrackRole::kToDevice:
      return LaneKind::kToDevice;
    case query::TrackRole::kToHost:
      return LaneKind::kToHost;
    case query::TrackRole::kHostOptimizer:
      return LaneKind::kHostOptimizer;
    case query::TrackRole::kAllGather:
      return LaneKind::kAllGather;
    case query::TrackRole::kReduceScatter:
      return LaneKind::kReduceScatter;
    case query::TrackRole::kBroadcast:
      return LaneKind::kBroadcast;
    case query::TrackRole::kReduce:
      return LaneKind::kReduce;
    case query::TrackRole::kTensor:
      return LaneKind::kTensor;
    case query::TrackRole::kSendActivation:
      return LaneKind::kSendActivation;
    case query::TrackRole::kReceiveActivation:
      return LaneKind::kReceiveActivation;
    case query::TrackRole::kSendGradient:
      return LaneKind::kSendGradient;
    case query::TrackRole::kReceiveGradient:
      return LaneKind::kReceiveGradient;
    case query::TrackRole::kAllReduce:
      break;
  }
  return LaneKind::kAllReduce;
}

LaneSource OpLane(const RankIndex& rank, LaneKind kind) {
  LaneSource source = SourceOf(rank, kind);
  if (kind != LaneKind::kFolded) {
    source.spans = &rank.column(kind);
    if (kind == LaneKind::kAllGather) source.strip = &rank.column(LaneKind::kCopy);
    return source;
  }
  source.spans = &rank.column(LaneKind::kCompute);
  if (!source.spans->empty() || rank.tracks.empty()) return source;
  const auto& streams = rank.tracks.streams();
  source.rows = streams.empty() ? LaneRows::kRanges : LaneRows::kWork;
  source.spans = streams.empty() ? &rank.tracks.threads().front().levels.back()
                                 : &streams.front().levels.front();
  source.op_class = streams.empty() ? OpClass::kHost : streams.front().op_class;
  return source;
}

// The threads of a recorded program launch what its streams do; under a Schedule the host lane
// shows that, and the ranges of libraries come last.
RankLanes LanesOf(const RankIndex& rank) {
  RankLanes of_rank;
  of_rank.rank = rank.rank;
  of_rank.ops = HasOps(rank) || rank.tracks.empty();
  of_rank.folded = OpLane(rank, LaneKind::kFolded);
  if (of_rank.ops) AddOps(rank, &of_rank.lanes);
  if (!of_rank.ops) AddThreads(rank, &of_rank.lanes);
  AddStreams(rank, &of_rank.lanes);
  if (of_rank.ops) AddThreads(rank, &of_rank.lanes);
  return of_rank;
}

Layout MakeLayout(const std::vector<RankLanes>& ranks, const std::set<int32_t>& folded, float scale,
                  float under) {
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
      const bool has_room = source.rows == LaneRows::kOps && !block.folded;
      y += (source.height + ui::kLaneGap + (has_room ? under : 0)) * scale;
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
