#include "ui/timeline/hit_test.h"

#include <algorithm>

#include "ui/timeline/geometry.h"

namespace shardscope::timeline {
namespace {

constexpr float kReach = 2;            // pixels beside a narrow span that still hit it
constexpr float kSharedPixels = 1.5F;  // spans whose centres are nearer than this share pixels
constexpr uint32_t kFewSpans = 3;      // so many may share pixels and the nearest is still meant

const Lane* LaneAt(const Layout& layout, float y) {
  const auto [first, last] = VisibleLanes(layout, y, y + 1);
  if (first == last) return nullptr;
  const Lane& lane = layout.lanes[first];
  return y >= lane.y && y < lane.y + lane.height ? &lane : nullptr;
}

bool HitStall(const RankIndex& rank, int64_t time_ns, Hit* hit) {
  const analysis::Stall* stall = RunIndex::StallAt(rank, time_ns);
  if (stall == nullptr) return false;
  hit->kind = Hit::Kind::kStall;
  hit->stall = static_cast<uint32_t>(stall - rank.stalls.data());
  hit->range = {stall->start_ns, stall->end_ns};
  return true;
}

bool HitExposed(const RankIndex& rank, int64_t time_ns, int64_t reach_ns, Hit* hit) {
  const SpanColumn& column = rank.column(LaneKind::kExposed);
  const size_t at = column.Nearest(time_ns, reach_ns);
  if (at < column.size()) {
    hit->kind = Hit::Kind::kExposed;
    hit->range = {column[at].start_ns, column[at].end_ns};
    return true;
  }
  for (const Interval& interval : rank.exposed_tail) {
    if (time_ns < interval.start_ns || time_ns >= interval.end_ns) continue;
    hit->kind = Hit::Kind::kExposed;
    hit->range = {interval.start_ns, interval.end_ns};
    return true;
  }
  return false;
}

bool HitSpan(const SpanColumn& column, const Axis& axis, float x, Hit* hit) {
  const int64_t time_ns = axis.Ns(x);
  const auto reach_ns = static_cast<int64_t>(axis.ns_per_pixel() * static_cast<double>(kReach));
  const size_t at = column.Nearest(time_ns, reach_ns);
  if (at == column.size()) return false;
  hit->kind = Hit::Kind::kSpan;
  hit->row = column[at].row;
  hit->range = {column[at].start_ns, column[at].end_ns};
  const size_t first = column.FirstTouching(axis.Ns(x - kSharedPixels) - 1);
  const size_t last = column.FirstStartingAt(axis.Ns(x + kSharedPixels));
  if (last > first && last - first > kFewSpans) {
    hit->count = static_cast<uint32_t>(last - first);
    hit->range = {column[first].start_ns, std::max(column[last - 1].end_ns, hit->range.end_ns)};
  }
  return true;
}

}  // namespace

Hit HitTest(const Layout& layout, const Axis& axis, float x, float y) {
  Hit hit;
  const Lane* lane = LaneAt(layout, y);
  if (lane == nullptr || x < axis.left() || x > axis.right()) return hit;
  const LaneSource& source = lane->source;
  const RankIndex& rank = *source.rank;
  hit.rank = lane->rank;
  hit.lane = source;
  const int64_t time_ns = axis.Ns(x);
  const auto reach_ns = static_cast<int64_t>(axis.ns_per_pixel() * static_cast<double>(kReach));
  if (source.kind == LaneKind::kExposed) {
    HitExposed(rank, time_ns, reach_ns, &hit);
    return hit;
  }
  if (source.kind == LaneKind::kFolded) {
    if (rank.column(LaneKind::kCompute).empty() || HitExposed(rank, time_ns, 0, &hit)) return hit;
  }
  const SpanColumn& column = *source.spans;
  const size_t inside = column.Nearest(time_ns, 0);
  const bool on_span = inside < column.size() && column[inside].start_ns <= time_ns &&
                       time_ns < column[inside].end_ns;
  if (source.kind == LaneKind::kCompute && !on_span && HitStall(rank, time_ns, &hit)) return hit;
  const bool on_strip =
      y < lane->y + kCopyStripHeight / ui::kCommunicationLaneHeight * lane->height;
  if (source.strip != nullptr && on_strip && HitSpan(*source.strip, axis, x, &hit)) return hit;
  HitSpan(column, axis, x, &hit);
  return hit;
}

const RankBlock* RankAt(const Layout& layout, float y) {
  for (const RankBlock& block : layout.ranks) {
    if (y >= block.y && y < block.y + block.height) return &block;
  }
  return nullptr;
}

}  // namespace shardscope::timeline
