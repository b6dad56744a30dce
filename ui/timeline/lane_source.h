// LaneSource: what a lane shows, of ops, of a GPU's streams and of threads alike. The only place
// that says which lanes a rank has and how they differ: kLanes in lane_source.cc. No ImGui.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/enum_count.h"
#include "trace/query/snapshot.h"
#include "ui/text.h"

namespace shardscope::timeline {

struct RankIndex;
struct TrackLane;
class SpanColumn;

enum class LaneKind : uint8_t {
  kHost,  // issues, and what the host does itself
  kCompute,
  kCopy,      // ops of copy streams: a strip inside kLaneOfCopies, no lane of its own
  kToDevice,  // from the host's memory
  kToHost,
  kHostOptimizer,  // of what is offloaded
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kBroadcast,       // from rank 0 to all others
  kReduce,          // from all others to rank 0
  kTensor,          // all-reduces between ranks that share the work of layers
  kSendActivation,  // of a pipeline: to the next stage, and so on
  kReceiveActivation,
  kSendGradient,
  kReceiveGradient,
  kExposed,  // communication that nothing hid
  kFolded,   // a whole rank in one strip: compute and, over it, exposed communication
  kStream,   // what the GPU did on one stream
  kThread,   // one level of the nested ranges that a thread marked
};
inline constexpr size_t kNumLaneKinds = kCountOf<LaneKind>;
// Kinds before kFolded: one column of spans each.
inline constexpr size_t kNumColumns = static_cast<size_t>(LaneKind::kFolded);
// Copies of ops are a strip in it.
inline constexpr LaneKind kLaneOfCopies = LaneKind::kAllGather;

LaneKind LaneOf(query::TrackRole role);
// The lane in which ops of such a track are to be seen.
LaneKind LaneThatShows(query::TrackRole role);

// What Span::row is a row of, in RankRows: op_runs, gpu_work or spans.
enum class LaneRows : uint8_t { kOps, kWork, kRanges };

// Points into the RunIndex that made it: good until that takes new rows.
struct LaneSource {
  LaneKind kind = LaneKind::kHost;
  LaneRows rows = LaneRows::kOps;
  const RankIndex* rank = nullptr;
  const TrackLane* track = nullptr;    // of a stream or thread
  uint16_t level = 0;                  // of a thread: of TrackLane::levels
  const SpanColumn* spans = nullptr;   // never null
  const SpanColumn* strip = nullptr;   // over the upper part of `spans`
  float height = 0;                    // at scale 1
  std::optional<ui::Text> title = {};  // of a lane of ops
  std::string_view track_name = {};    // of others; of a thread once, at its outermost ranges
  // Of those spans that a coarse view cannot tell apart: SlotOf() is 0.
  query::OpClass op_class = query::OpClass::kHost;

  // What stands in front of it.
  std::string Label(ui::Language language) const {
    return title ? ui::Tr(language, *title) : ui::TrackText(language, track_name);
  }
};

struct RankLanes {
  int32_t rank = 0;
  bool ops = true;                // else only what a recorded program marked and its GPU did
  std::vector<LaneSource> lanes;  // from the top
  LaneSource folded;              // the only one of a folded rank
};
RankLanes LanesOf(const RankIndex& rank);

// `kind`: of a lane of ops, or kFolded; a folded rank without ops shows its first stream, else its
// first thread.
LaneSource OpLane(const RankIndex& rank, LaneKind kind);

struct Lane {
  LaneSource source;
  int32_t rank = 0;
  float y = 0;  // of its top, from the top of the first rank
  float height = 0;
};

struct RankBlock {
  int32_t rank = 0;
  bool folded = false;
  float y = 0;
  float height = 0;
  size_t first_lane = 0;
  size_t num_lanes = 0;
};

// Where the lanes of every rank stand. First of a lane's three functions; no ImGui.
struct Layout {
  std::vector<RankBlock> ranks;
  std::vector<Lane> lanes;  // ascending y
  float height = 0;
};

// `under`: room under each lane of ops, at scale 1.
Layout MakeLayout(const std::vector<RankLanes>& ranks, const std::set<int32_t>& folded, float scale,
                  float under = 0);

// Indices [first, second) of the lanes that touch [top, bottom).
std::pair<size_t, size_t> VisibleLanes(const Layout& layout, float top, float bottom);

// The scroll offset that keeps the rank block under `mouse_y` (from the top of the window of lanes)
// where it is when `before` becomes `after`.
float AnchoredScroll(const Layout& before, const Layout& after, float scroll, float mouse_y);

}  // namespace shardscope::timeline
