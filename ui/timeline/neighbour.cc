#include "ui/timeline/neighbour.h"

#include <utility>

#include "ui/timeline/gpu/stream_waits.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

using analysis::HitKind;
using analysis::SearchHit;
using query::RankRows;

std::optional<SearchHit> OpHitOf(const RankRows& rows, query::OpRunId id) {
  const uint32_t row = id.is_none() ? kNoRow : FindRow(rows, id);
  if (row == kNoRow) return std::nullopt;
  return HitOf(rows, HitKind::kOp, row);
}

// Of a kernel, copy or range.
std::optional<SearchHit> SpanHitOf(const RankRows& rows, query::SpanId id) {
  if (id.is_none()) return std::nullopt;
  if (const uint32_t row = FindWorkRow(rows, id); row != kNoRow) {
    return HitOf(rows, HitKind::kWork, row);
  }
  const uint32_t row = FindRangeRow(rows, id);
  if (row == kNoRow) return std::nullopt;
  return HitOf(rows, HitKind::kRange, row);
}

std::optional<SearchHit> AlongOp(const ui::Context& context, const SearchHit& op, bool forward) {
  const query::Snapshot& snapshot = *context.snapshot;
  if (!forward) return WaitedFor(snapshot, op);
  if (const auto waits = WaitsFor(snapshot, op)) return waits;
  return SpanHitOf(*snapshot.FindRank(op.rank),
                   FirstWorkOf(snapshot, *context.index, op.rank, op.op_run));
}

std::optional<SearchHit> AlongWork(const ui::Context& context, const SearchHit& work,
                                   bool forward) {
  const query::Snapshot& snapshot = *context.snapshot;
  const RankRows& rows = *snapshot.FindRank(work.rank);
  const analysis::EdgeCheck* check = context.report == nullptr ? nullptr : &context.report->edges;
  std::optional<SearchHit> nearest;
  for (const StreamWait& wait : WaitsOfWork(snapshot, *context.index, check, work.rank, work.row)) {
    if (wait.incoming == forward) continue;
    const WaitEnd& end = forward ? wait.to : wait.from;
    const RankRows* of_end = snapshot.FindRank(end.rank);
    const auto hit = of_end == nullptr ? std::nullopt : SpanHitOf(*of_end, end.span);
    if (!hit) continue;
    // What was waited for last, what waited first.
    const bool is_nearer =
        !nearest || (forward ? hit->start_ns < nearest->start_ns : hit->end_ns > nearest->end_ns);
    if (is_nearer) nearest = hit;
  }
  if (nearest || forward) return nearest;
  return OpHitOf(rows, WorkFactsOf(snapshot, *context.index, work.rank, work.span).op_run);
}

}  // namespace

std::optional<SearchHit> SelectedHit(const ui::Context& context) {
  if (context.snapshot == nullptr) return std::nullopt;
  const ui::Selection& selection = context.selection;
  const RankRows* rows = context.snapshot->FindRank(selection.rank);
  if (rows == nullptr) return std::nullopt;
  return selection.span.is_none() ? OpHitOf(*rows, selection.op_run)
                                  : SpanHitOf(*rows, selection.span);
}

std::optional<SearchHit> FindNeighbour(const ui::Context& context, ui::Neighbour which) {
  if (context.index == nullptr) return std::nullopt;
  const std::optional<SearchHit> from = SelectedHit(context);
  if (!from) return std::nullopt;
  switch (which) {
    case ui::Neighbour::kPreviousOfName:
      return OfSameName(*context.snapshot, *from, -1);
    case ui::Neighbour::kNextOfName:
      return OfSameName(*context.snapshot, *from, 1);
    case ui::Neighbour::kAlongBack:
    case ui::Neighbour::kAlongForward:
      break;
  }
  const bool forward = which == ui::Neighbour::kAlongForward;
  if (from->what == HitKind::kOp) return AlongOp(context, *from, forward);
  if (from->what == HitKind::kWork) return AlongWork(context, *from, forward);
  return std::nullopt;
}

}  // namespace shardscope::timeline
