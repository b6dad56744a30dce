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

OpClass ClassOfSlot(LaneKind kind, size_t slot) {
  constexpr std::array<OpClass, kNumSlots> kCompute = {OpClass::kForward, OpClass::kBackward,
                                                       OpClass::kOptimizer, OpClass::kCopy};
  if (slot > 0) return kCompute[slot];
  switch (kind) {
    case LaneKind::kHost:
      return OpClass::kHost;
    case LaneKind::kAllGather:
    case LaneKind::kExposed:
      return OpClass::kAllGather;
    case LaneKind::kReduceScatter:
      return OpClass::kReduceScatter;
    case LaneKind::kAllReduce:
      return OpClass::kAllReduce;
    case LaneKind::kCopy:
      return OpClass::kCopy;
    case LaneKind::kCompute:
    case LaneKind::kFolded:
    case LaneKind::kStream:
    case LaneKind::kThread:
      break;
  }
  return OpClass::kForward;
}

// One column's look: the class that fills most, and how much of the column is busy.
DensityRun LookOf(const SlotBusy& busy, float exposed, float column_ns, LaneKind kind,
                  OpClass first_class) {
  size_t dominant = 0;
  float total = exposed;
  for (size_t slot = 0; slot < kNumSlots; ++slot) {
    total += busy[slot];
    if (busy[slot] > busy[dominant]) dominant = slot;
  }
  DensityRun run;
  run.op_class = dominant == 0 ? first_class : ClassOfSlot(kind, dominant);
  run.exposed = kind == LaneKind::kExposed || exposed > busy[dominant];
  const float share = std::min(total / column_ns, 1.0F);
  run.level = share <= 0.002F ? uint8_t{0}
                              : static_cast<uint8_t>(std::max(
                                    1.0F, std::round(share * static_cast<float>(kDensityLevels))));
  return run;
}

// `first_class`: what spans of the first slot are drawn as.
void MakeRuns(const SpanColumn& column, const SpanColumn* exposed, LaneKind kind,
              OpClass first_class, const Axis& axis, std::vector<DensityRun>* runs) {
  const auto column_ns = static_cast<float>(axis.ns_per_pixel());
  const int num_columns = static_cast<int>(axis.width());  // WindowAxis() is whole pixels wide
  const std::vector<SlotBusy> busy = column.density().Columns(axis.range(), num_columns);
  std::vector<SlotBusy> exposed_busy;
  if (exposed != nullptr) {
    exposed_busy = exposed->density().Columns(axis.range(), num_columns);
  }
  for (int pixel = 0; pixel < num_columns; ++pixel) {
    const float x0 = axis.left() + static_cast<float>(pixel);
    const float x1 = x0 + 1;
    const auto at = static_cast<size_t>(pixel);
    const float exposed_ns = exposed == nullptr ? 0 : exposed_busy[at][0];
    DensityRun run = LookOf(busy[at], exposed_ns, column_ns, kind, first_class);
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
      [&](const analysis::Stall& stall) { return stall.end_ns <= axis.range().start_ns; });
  for (auto it = first; it != rank.stalls.end() && it->start_ns < axis.range().end_ns; ++it) {
    const auto stall = static_cast<uint32_t>(it - rank.stalls.begin());
    const GapBox gap{axis.X(it->start_ns), axis.X(it->end_ns), stall,
                     it->cause == analysis::StallCause::kSlot};
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

const SpanColumn& ColumnOf(const RankIndex& rank, const Lane& lane) {
  const auto& streams = rank.tracks.streams();
  const auto& threads = rank.tracks.threads();
  if (lane.kind == LaneKind::kStream) return streams[lane.track].levels.front();
  if (lane.kind == LaneKind::kThread) return threads[lane.track].levels[lane.level];
  if (lane.kind != LaneKind::kFolded) return rank.column(lane.kind);
  const SpanColumn& compute = rank.column(LaneKind::kCompute);
  if (!compute.empty() || rank.tracks.empty()) return compute;
  return streams.empty() ? threads.front().levels.back() : streams.front().levels.front();
}

LaneDraw PreprocessTrack(const RunIndex& index, const query::RankRows& rows, const RankIndex& rank,
                         const Lane& lane, const Axis& axis, bool was_dense) {
  LaneDraw draw;
  const SpanColumn& column = ColumnOf(rank, lane);
  draw.dense = DrawDense(column, axis, was_dense);
  if (draw.dense) {
    const auto& lanes =
        lane.kind == LaneKind::kThread ? rank.tracks.threads() : rank.tracks.streams();
    const OpClass first_class =
        lane.track < lanes.size() ? lanes[lane.track].op_class : OpClass::kHost;
    MakeRuns(column, nullptr, lane.kind, first_class, axis, &draw.runs);
    return draw;
  }
  const WaitOf wait = [&](const Span& span, SpanBox* box) {
    if (!IsCommunication(span.op_class)) return;
    const uint32_t op_row = RunIndex::OpRunOf(rows, rank, rows.gpu_work[span.row]);
    const query::Collective* collective =
        op_row == kNoRow ? nullptr : index.CollectiveOf(rows, rank, op_row);
    if (collective != nullptr) box->truth = collective->truth;
    const Arrival* arrival = index.ArrivalOfWork(rows, rank, span.row);
    if (arrival != nullptr && arrival->last_ns > span.start_ns) {
      box->wait_x1 = axis.X(std::min(arrival->last_ns, span.end_ns));
    }
  };
  MakeBoxes(column, axis, lane.kind == LaneKind::kStream ? wait : WaitOf(), &draw.boxes);
  return draw;
}

LaneDraw Preprocess(const RunIndex& index, const query::RankRows& rows, const RankIndex& rank,
                    LaneKind kind, const Axis& axis, bool was_dense) {
  LaneDraw draw;
  const bool folded = kind == LaneKind::kFolded;
  const SpanColumn& column = rank.column(folded ? LaneKind::kCompute : kind);
  const SpanColumn& exposed = rank.column(LaneKind::kExposed);
  draw.dense = DrawDense(column, axis, was_dense);
  if (draw.dense) {
    MakeRuns(column, folded ? &exposed : nullptr, kind, ClassOfSlot(kind, 0), axis, &draw.runs);
    if (kind == LaneKind::kCompute) MakeStalls(rank, axis, kMinStall, &draw.gaps);
    return draw;
  }
  const WaitOf wait = [&](const Span& span, SpanBox* box) {
    const query::Collective* collective = index.CollectiveOf(rows, rank, span.row);
    if (collective == nullptr) return;
    box->truth = collective->truth;
    const Arrival* arrival = index.ArrivalOf(*collective);
    if (arrival != nullptr && arrival->last_ns > span.start_ns) {
      box->wait_x1 = axis.X(std::min(arrival->last_ns, span.end_ns));
    }
  };
  if (kind != LaneKind::kExposed) MakeBoxes(column, axis, wait, &draw.boxes);
  if (kind == LaneKind::kAllGather) {
    const SpanColumn& copies = rank.column(LaneKind::kCopy);
    if (!DrawDense(copies, axis, false)) MakeBoxes(copies, axis, wait, &draw.strip);
  }
  if (kind == LaneKind::kCompute) MakeStalls(rank, axis, 1, &draw.gaps);
  if (folded || kind == LaneKind::kExposed) MakeExposed(rank, axis, &draw.gaps);
  return draw;
}

}  // namespace shardscope::timeline
