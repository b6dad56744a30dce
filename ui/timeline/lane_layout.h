// Layout: which lanes every rank has and where they stand. First of a lane's three functions; no
// ImGui.
#pragma once

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::timeline {

enum class LaneKind : uint8_t {
  kHost,  // issues, and what the host does itself
  kCompute,
  kCopy,  // ops of copy streams: a strip inside the all-gather lane, no lane of its own
  kAllGather,
  kReduceScatter,
  kAllReduce,
  kExposed,  // communication that nothing hid
  kFolded,   // a whole rank in one strip: compute and, over it, exposed communication
  kStream,   // what the GPU did on one stream
  kThread,   // one level of the nested ranges that a thread marked
};
inline constexpr int kNumColumns = 7;  // kinds before kFolded: one column of spans each

LaneKind LaneOf(query::TrackRole role);

struct Lane {
  LaneKind kind = LaneKind::kHost;
  int32_t rank = 0;
  float y = 0;  // of its top, from the top of the first rank
  float height = 0;
  uint16_t track = 0;  // kStream: of TrackIndex::streams(); kThread: of threads()
  uint16_t level = 0;  // kThread: of TrackLane::levels
};

struct RankBlock {
  int32_t rank = 0;
  bool folded = false;
  float y = 0;
  float height = 0;
  size_t first_lane = 0;
  size_t num_lanes = 0;
};

struct Layout {
  std::vector<RankBlock> ranks;
  std::vector<Lane> lanes;  // ascending y
  float height = 0;
};

struct ThreadLanes {
  uint16_t thread = 0;  // of TrackIndex::threads()
  int levels = 1;       // of nesting
};

// Which optional lanes a rank has.
struct RankLanes {
  int32_t rank = 0;
  bool all_gather = true;
  bool reduce_scatter = true;
  bool all_reduce = false;
  bool ops = true;                     // else only what a recorded program marked and its GPU did
  std::vector<uint16_t> streams{};     // of TrackIndex::streams(), from the top
  std::vector<ThreadLanes> threads{};  // that marked ranges, as they stand
};

Layout MakeLayout(const std::vector<RankLanes>& ranks, const std::set<int32_t>& folded,
                  float scale);

// Indices [first, second) of the lanes that touch [top, bottom).
std::pair<size_t, size_t> VisibleLanes(const Layout& layout, float top, float bottom);

// The scroll offset that keeps the rank block under `mouse_y` (from the top of the window of lanes)
// where it is when `before` becomes `after`.
float AnchoredScroll(const Layout& before, const Layout& after, float scroll, float mouse_y);

}  // namespace shardscope::timeline
