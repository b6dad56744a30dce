// Level of detail of a track: which rectangles to draw for a time range at a zoom, in time
// proportional to the pixels, not to the spans. Pure data, no ImGui.
//
// A TrackDetail keeps a track's spans sorted by start and, over blocks of them, a tree of sums
// (busy time per OpClass, longest span, latest end). Appending touches one node a level. A query
// walks the spans that are wide enough and folds narrower ones: all narrow spans that start in the
// same cell of a time grid (kFoldPixels wide, fixed to time and not to the view, so panning does
// not flicker) become one folded run. Used by one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::query {

inline constexpr int kNumOpClasses = 9;
inline constexpr double kMinSpanPixels = 3;  // narrower spans fold
inline constexpr double kFoldPixels = 4;     // width of a cell of folded spans

struct DetailSpan {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  OpClass op_class = OpClass::kHost;
  uint32_t row = 0;  // the caller's: for op runs the index in RankRows::op_runs
};

struct DrawItem {
  int64_t start_ns = 0;
  int64_t end_ns = 0;   // of a folded run: the latest end in it
  int64_t busy_ns = 0;  // sum of the durations; busy / (end - start) is the lightness of a run
  OpClass op_class = OpClass::kHost;  // of a folded run: the one with most busy time
  uint32_t num_spans = 1;             // 1: one span; more: a folded run
  uint32_t row = 0;                   // DetailSpan::row; of a folded run that of its longest span
  bool operator==(const DrawItem&) const = default;
};

class TrackDetail {
 public:
  // Cheap if spans come sorted by start (as the ops of a stream do); one that is late costs a
  // rebuild of what comes after it.
  void Append(const DetailSpan& span);

  size_t size() const { return spans_.size(); }
  const DetailSpan& operator[](size_t index) const { return spans_[index]; }

  // Everything that touches [from_ns, to_ns), by start. Also for one pixel or the whole run.
  std::vector<DrawItem> Visible(int64_t from_ns, int64_t to_ns, double ns_per_pixel) const;

  // Index of the span that covers `time_ns` (the last one to start, if several do), or -1.
  int64_t At(int64_t time_ns) const;

 private:
  static constexpr size_t kBlockSpans = 32;
  static constexpr size_t kFanOut = 8;

  struct Node {
    std::array<int64_t, kNumOpClasses> busy_ns = {};
    int64_t latest_end_ns = std::numeric_limits<int64_t>::min();
    int64_t longest_ns = -1;
    uint32_t longest = 0;  // index of that span
  };

  static void AddSpan(const DetailSpan& span, uint32_t index, Node* node);
  static void AddNode(const Node& from, Node* node);
  void AddToTree(size_t index);
  size_t FirstStartingAt(int64_t time_ns, size_t begin) const;
  // First span that ends after `time_ns`; all spans before it have ended.
  size_t FirstEndingAfter(int64_t time_ns) const;
  // First span of [begin, end) with a duration of at least `duration_ns`; `end` if there is none.
  size_t FirstAsLongAs(int64_t duration_ns, size_t begin, size_t end) const;
  // The first span of [begin, end) for which `span(i)` holds; `node(n)` says whether any span of a
  // node can.
  template <typename SpanTest, typename NodeTest>
  size_t FindFirst(size_t begin, size_t end, SpanTest&& span, NodeTest&& node) const;
  Node Sum(size_t begin, size_t end) const;
  DrawItem Fold(size_t begin, size_t end) const;

  std::vector<DetailSpan> spans_;
  // levels_[0] sums blocks of kBlockSpans spans, levels_[k + 1] kFanOut nodes of levels_[k].
  std::vector<std::vector<Node>> levels_;
};

// The TrackDetails of a run's op runs, kept up to date from Snapshot to Snapshot.
class RunDetail {
 public:
  // Appends the op runs that came since the last Update. `snapshot` is of the same LiveTrace.
  void Update(const Snapshot& snapshot);
  // nullptr: no op ran on that track yet.
  const TrackDetail* Track(int64_t track) const;

 private:
  std::map<int64_t, TrackDetail> tracks_;
  std::map<int32_t, size_t> rows_taken_;  // per rank
};

}  // namespace shardscope::query
