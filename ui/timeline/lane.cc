#include "ui/timeline/lane.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>

#include "ui/timeline/geometry.h"

namespace shardscope::timeline {
namespace {

using query::IsCommunication;
using query::OpClass;

// Rectangles return only when they are this much wider than where density began: one wheel notch.
constexpr float kHysteresis = 1.25F;

// One column's look: the class that fills most, and how much of the column is busy. `num_slots`: of
// `busy` that are in use.
DensityRun LookOf(const SlotBusy& busy, size_t num_slots, float exposed, float column_ns,
                  const LaneSource& lane) {
  constexpr std::array<OpClass, kNumSlots> kClasses = {OpClass::kForward, OpClass::kBackward,
                                                       OpClass::kOptimizer, OpClass::kCopy,
                                                       OpClass::kRecompute};
  DensityRun run;
  size_t dominant = 0;
  float total = exposed + busy[0];
  for (size_t slot = 1; slot < num_slots; ++slot) {
    total += busy[slot];
    if (busy[slot] > busy[dominant]) dominant = slot;
  }
  const float share = std::min(total / column_ns, 1.0F);
  if (share <= 0.002F) return run;
  run.op_class = dominant == 0 ? lane.op_class : kClasses[dominant];
  run.exposed = lane.kind == LaneKind::kExposed || exposed > busy[dominant];
  const auto level = static_cast<int>(share * static_cast<float>(kDensityLevels) + 0.5F);
  run.level = static_cast<uint8_t>(std::max(level, 1));
  return run;
}

void MakeRuns(const LaneSource& lane, const Axis& axis, std::vector<DensityRun>* runs) {
  const auto column_ns = static_cast<float>(axis.ns_per_pixel());
  const int num_columns = static_cast<int>(axis.width());  // WindowAxis() is whole pixels wide
  const std::vector<SlotBusy> busy = lane.spans->density().Columns(axis.range(), num_columns);
  const size_t num_slots = lane.spans->density().num_slots();
  const bool folded = lane.kind == LaneKind::kFolded;
  std::vector<SlotBusy> exposed_busy;
  if (folded) {
    const SpanColumn& exposed = lane.rank->column(LaneKind::kExposed);
    exposed_busy = exposed.density().Columns(axis.range(), num_columns);
  }
  for (int pixel = 0; pixel < num_columns; ++pixel) {
    const float x0 = axis.left() + static_cast<float>(pixel);
    const float x1 = x0 + 1;
    const auto at = static_cast<size_t>(pixel);
    DensityRun run = LookOf(busy[at], num_slots, folded ? exposed_busy[at][0] : 0, column_ns, lane);
    if (run.level == 0) continue;
    run.x0 = x0;
    run.x1 = x1;
    if (!runs->empty()) {
      DensityRun& last = runs->back();
      if (last.x1 == x0 && last.op_class == run.op_class && last.level == run.level &&
          last.exposed == run.exposed) {
        last.x1 = x1;
        continue;
      }
    }
    runs->push_back(run);
  }
}

bool Narrow(const SpanBox& box) { return box.x1 - box.x0 < kMinRectangle; }

// Spans too narrow for a rectangle of their own join the folded box in front of them, if they touch
// it.
bool Fold(const SpanBox& box, std::vector<SpanBox>* boxes) {
  if (boxes->empty() || !Narrow(box)) return false;
  SpanBox& last = boxes->back();
  if (last.count == 1 && !Narrow(last)) return false;
  if (box.x0 - last.x1 > kSpanGap) return false;
  // Hue of the longer part; waiting, truth and name of single spans are lost in a fold.
  if (box.x1 - box.x0 > last.x1 - last.x0) last.op_class = box.op_class;
  last.x1 = std::max(last.x1, box.x1);
  last.wait_x1 = last.x0;
  ++last.count;
  return true;
}

// Finds truth and waiting part of a span that has a box of its own.
using WaitOf = std::function<void(const Span&, SpanBox*)>;

// Ranges of threads wait for no other rank.
WaitOf WaitsOf(const RunIndex& index, const query::RankRows& rows, const LaneSource& lane,
               const Axis& axis) {
  if (lane.rows == LaneRows::kRanges) return {};
  return [&index, &rows, &lane, &axis](const Span& span, SpanBox* box) {
    if (!IsCommunication(span.op_class)) return;
    const bool is_op = lane.rows == LaneRows::kOps;
    const uint32_t op_row =
        is_op ? span.row : RunIndex::OpRunOf(rows, *lane.rank, rows.gpu_work[span.row]);
    const std::optional<query::Collective> collective =
        index.CollectiveOf(rows, *lane.rank, op_row);
    if (collective) box->truth = collective->truth;
    const Arrival* arrival = nullptr;
    if (!is_op) {
      arrival = index.ArrivalOfWork(rows, *lane.rank, span.row);
    } else if (collective) {
      arrival = index.ArrivalOf(*collective);
    }
    if (arrival != nullptr && arrival->last_ns > span.start_ns) {
      box->wait_x1 = axis.X(std::min(arrival->last_ns, span.end_ns));
    }
  };
}

void MakeBoxes(const SpanColumn& column, const Axis& axis, const WaitOf& wait_of,
               std::vector<SpanBox>* boxes) {
  const int64_t from_ns = axis.range().start_ns;
  const size_t last = column.FirstStartingAt(axis.range().end_ns);
  for (size_t at = column.FirstTouching(from_ns - 1); at < last; ++at) {
    const Span& span = column[at];
    if (span.end_ns < from_ns) continue;
    SpanBox box;
    box.x0 = axis.X(span.start_ns);
    box.x1 = axis.X(span.end_ns);
    box.wait_x1 = box.x0;
    box.row = span.row;
    box.op_class = span.op_class;
    box.shade = span.shade;
    box.instant = span.instant;
    if (Fold(box, boxes)) continue;
    if (!span.instant && wait_of) wait_of(span, &box);
    boxes->push_back(box);
  }
}

void MakeStalls(const RankIndex& rank, const Axis& axis, float least_width,
                std::vector<GapBox>* gaps) {
  const auto first = std::partition_point(
      rank.stalls.begin(), rank.stalls.end(),
      [&](const analysis::Stall* stall) { return stall->end_ns <= axis.range().start_ns; });
  for (auto it = first; it != rank.stalls.end(); ++it) {
    const analysis::Stall& stall = **it;
    if (stall.start_ns >= axis.range().end_ns) break;
    const GapBox gap{axis.X(stall.start_ns), axis.X(stall.end_ns),
                     static_cast<uint32_t>(it - rank.stalls.begin()),
                     stall.cause == analysis::StallCause::kSlot};
    if (gap.x1 - gap.x0 >= least_width) gaps->push_back(gap);
  }
}

void AddExposed(int64_t start_ns, int64_t end_ns, const Axis& axis, std::vector<GapBox>* gaps) {
  if (end_ns <= axis.range().start_ns || start_ns >= axis.range().end_ns) return;
  const GapBox gap{axis.X(start_ns), axis.X(end_ns), 0, false};
  if (!gaps->empty() && gap.x0 - gaps->back().x1 < kSpanGap) {
    gaps->back().x1 = std::max(gaps->back().x1, gap.x1);
  } else {
    gaps->push_back(gap);
  }
}

void MakeExposed(const RankIndex& rank, const Axis& axis, std::vector<GapBox>* gaps) {
  const SpanColumn& exposed = rank.column(LaneKind::kExposed);
  const size_t last = exposed.FirstStartingAt(axis.range().end_ns);
  for (size_t at = exposed.FirstTouching(axis.range().start_ns); at < last; ++at) {
    AddExposed(exposed[at].start_ns, exposed[at].end_ns, axis, gaps);
  }
  for (const Interval& interval : rank.exposed_tail) {
    AddExposed(interval.start_ns, interval.end_ns, axis, gaps);
  }
}

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
  const auto after = std::ranges::upper_bound(
      rank.stalls, stall->start_ns, {}, [](const analysis::Stall* one) { return one->start_ns; });
  hit->stall = static_cast<uint32_t>(after - rank.stalls.begin() - 1);
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

bool DrawDense(const SpanColumn& column, const Axis& axis, bool was_dense) {
  const size_t first = column.FirstTouching(axis.range().start_ns);
  const size_t last = column.FirstStartingAt(axis.range().end_ns);
  if (last <= first + 1) return false;
  // Finer than the pyramid there is nothing to read from it.
  if (axis.ns_per_pixel() * 4 < static_cast<double>(column.density().finest_ns())) return false;
  const float pixels_per_span = axis.width() / static_cast<float>(last - first);
  return pixels_per_span < (was_dense ? kMinRectangle * kHysteresis : kMinRectangle);
}

LaneDraw Preprocess(const RunIndex& index, const query::RankRows& rows, const LaneSource& lane,
                    const Axis& axis, bool was_dense) {
  LaneDraw draw;
  draw.dense = DrawDense(*lane.spans, axis, was_dense);
  if (lane.kind == LaneKind::kCompute) {
    MakeStalls(*lane.rank, axis, draw.dense ? kMinStall : 1, &draw.gaps);
  }
  if (draw.dense) {
    MakeRuns(lane, axis, &draw.runs);
    return draw;
  }
  const WaitOf wait = WaitsOf(index, rows, lane, axis);
  if (lane.kind != LaneKind::kExposed) MakeBoxes(*lane.spans, axis, wait, &draw.boxes);
  if (lane.strip != nullptr && !DrawDense(*lane.strip, axis, false)) {
    MakeBoxes(*lane.strip, axis, wait, &draw.strip);
  }
  if (lane.kind == LaneKind::kExposed || lane.kind == LaneKind::kFolded) {
    MakeExposed(*lane.rank, axis, &draw.gaps);
  }
  return draw;
}

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
