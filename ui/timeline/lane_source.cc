#include "ui/timeline/lane_source.h"

#include <algorithm>
#include <array>
#include <span>

#include "ui/theme.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

using query::OpClass;
using query::TrackRole;
using ui::Text;

// When a rank has such a lane.
enum class Shown : uint8_t {
  kAlways,
  kWhenRan,
  kWhenSharding,     // also before its first collective; of another rank when it ran
  kWhenNotSharding,  // when it ran, of a rank that has a whole model, or not what the others have
  kElsewhere,        // it is no lane of ops, or a part of another one
};

// What all lanes of a kind have in common.
struct LaneTraits {
  LaneKind kind;
  std::optional<TrackRole> role;  // whose ops it has
  Shown shown;
  float height;  // at scale 1
  OpClass op_class;
  std::optional<Text> title;
};

// Of ops in the order in which they stand, from the top.
constexpr LaneTraits kLanes[] = {
    {LaneKind::kHost, TrackRole::kHost, Shown::kAlways, ui::kHostLaneHeight, OpClass::kHost,
     Text::kHost},
    {LaneKind::kCompute, TrackRole::kCompute, Shown::kAlways, ui::kComputeLaneHeight,
     OpClass::kForward, Text::kCompute},
    {LaneKind::kToDevice, TrackRole::kToDevice, Shown::kWhenRan, ui::kCommunicationLaneHeight,
     OpClass::kCopy, Text::kToDevice},
    {LaneKind::kToHost, TrackRole::kToHost, Shown::kWhenRan, ui::kCommunicationLaneHeight,
     OpClass::kCopy, Text::kToHost},
    {LaneKind::kHostOptimizer, TrackRole::kHostOptimizer, Shown::kWhenRan,
     ui::kCommunicationLaneHeight, OpClass::kOptimizer, Text::kHostOptimizer},
    {LaneKind::kAllGather, TrackRole::kAllGather, Shown::kWhenSharding,
     ui::kCommunicationLaneHeight, OpClass::kAllGather, Text::kAllGather},
    {LaneKind::kCopy, TrackRole::kCopy, Shown::kElsewhere, ui::kCommunicationLaneHeight,
     OpClass::kCopy, std::nullopt},
    {LaneKind::kReduceScatter, TrackRole::kReduceScatter, Shown::kWhenSharding,
     ui::kCommunicationLaneHeight, OpClass::kReduceScatter, Text::kReduceScatter},
    {LaneKind::kAllReduce, TrackRole::kAllReduce, Shown::kWhenNotSharding,
     ui::kCommunicationLaneHeight, OpClass::kAllReduce, Text::kAllReduce},
    {LaneKind::kBroadcast, TrackRole::kBroadcast, Shown::kWhenNotSharding,
     ui::kCommunicationLaneHeight, OpClass::kBroadcast, Text::kBroadcast},
    {LaneKind::kReduce, TrackRole::kReduce, Shown::kWhenNotSharding, ui::kCommunicationLaneHeight,
     OpClass::kReduce, Text::kReduce},
    {LaneKind::kTensor, TrackRole::kTensor, Shown::kWhenNotSharding, ui::kCommunicationLaneHeight,
     OpClass::kAllReduce, Text::kTensor},
    {LaneKind::kReceiveActivation, TrackRole::kReceiveActivation, Shown::kWhenNotSharding,
     ui::kCommunicationLaneHeight, OpClass::kSendReceive, Text::kReceiveActivation},
    {LaneKind::kSendActivation, TrackRole::kSendActivation, Shown::kWhenNotSharding,
     ui::kCommunicationLaneHeight, OpClass::kSendReceive, Text::kSendActivation},
    {LaneKind::kReceiveGradient, TrackRole::kReceiveGradient, Shown::kWhenNotSharding,
     ui::kCommunicationLaneHeight, OpClass::kSendReceive, Text::kReceiveGradient},
    {LaneKind::kSendGradient, TrackRole::kSendGradient, Shown::kWhenNotSharding,
     ui::kCommunicationLaneHeight, OpClass::kSendReceive, Text::kSendGradient},
    {LaneKind::kExposed, std::nullopt, Shown::kAlways, ui::kExposedLaneHeight, OpClass::kAllGather,
     Text::kExposed},
    {LaneKind::kFolded, std::nullopt, Shown::kElsewhere, ui::kFoldedRankHeight, OpClass::kForward,
     std::nullopt},
    {LaneKind::kStream, std::nullopt, Shown::kElsewhere, ui::kStreamLaneHeight, OpClass::kForward,
     std::nullopt},
    {LaneKind::kThread, std::nullopt, Shown::kElsewhere, ui::kThreadLaneHeight, OpClass::kForward,
     std::nullopt},
};

constexpr bool EachHasOneRow() {
  std::array<int, kNumLaneKinds> of_kind{};
  std::array<int, words::kNumTrackRoles> of_role{};
  for (const LaneTraits& lane : kLanes) {
    ++of_kind[static_cast<size_t>(lane.kind)];
    if (lane.role) ++of_role[static_cast<size_t>(*lane.role)];
  }
  const auto is_one = [](int count) { return count == 1; };
  return std::ranges::all_of(of_kind, is_one) && std::ranges::all_of(of_role, is_one);
}
static_assert(EachHasOneRow(), "each LaneKind and each TrackRole needs one row of kLanes");

constexpr std::array<const LaneTraits*, kNumLaneKinds> kTraitsOfKind = [] {
  std::array<const LaneTraits*, kNumLaneKinds> rows{};
  for (const LaneTraits& lane : kLanes) rows[static_cast<size_t>(lane.kind)] = &lane;
  return rows;
}();

constexpr std::array<LaneKind, words::kNumTrackRoles> kKindOfRole = [] {
  std::array<LaneKind, words::kNumTrackRoles> kinds{};
  for (const LaneTraits& lane : kLanes) {
    if (lane.role) kinds[static_cast<size_t>(*lane.role)] = lane.kind;
  }
  return kinds;
}();

LaneSource SourceOf(const RankIndex& rank, LaneKind kind) {
  const LaneTraits& lane = *kTraitsOfKind[static_cast<size_t>(kind)];
  LaneSource source;
  source.kind = kind;
  source.rank = &rank;
  source.height = lane.height;
  source.title = lane.title;
  source.op_class = lane.op_class;
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

void AddOps(const RankIndex& rank, std::vector<LaneSource>* lanes) {
  const auto ran = [&rank](const LaneTraits& lane) { return !rank.column(lane.kind).empty(); };
  const bool shards = std::ranges::none_of(kLanes, [&ran](const LaneTraits& lane) {
    return lane.shown == Shown::kWhenNotSharding && ran(lane);
  });
  const auto is_shown = [&ran, shards](const LaneTraits& lane) {
    switch (lane.shown) {
      case Shown::kAlways:
        return true;
      case Shown::kWhenSharding:
        return shards || ran(lane);
      case Shown::kWhenRan:
      case Shown::kWhenNotSharding:
        return ran(lane);
      case Shown::kElsewhere:
        break;
    }
    return false;
  };
  for (const LaneTraits& lane : kLanes) {
    if (is_shown(lane)) lanes->push_back(OpLane(rank, lane.kind));
  }
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

LaneKind LaneOf(TrackRole role) { return kKindOfRole[static_cast<size_t>(role)]; }

LaneKind LaneThatShows(TrackRole role) {
  const LaneKind kind = LaneOf(role);
  return kind == LaneKind::kCopy ? kLaneOfCopies : kind;
}

LaneSource OpLane(const RankIndex& rank, LaneKind kind) {
  LaneSource source = SourceOf(rank, kind);
  if (kind != LaneKind::kFolded) {
    source.spans = &rank.column(kind);
    if (kind == kLaneOfCopies) source.strip = &rank.column(LaneKind::kCopy);
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
