#include "ui/panels/timeline/tooltip.h"

#include <algorithm>

#include "trace/analysis/names.h"
#include "trace/base/units.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/values.h"

namespace shardscope::panels {
namespace {

using timeline::Hit;

std::string Join(const std::string& name, const std::string& value) { return name + "  " + value; }

TooltipText OfSpan(const ui::Context& context, const timeline::RunIndex& index, const Hit& hit) {
  const query::RankRows* rows = context.snapshot->FindRank(hit.rank);
  const timeline::RankIndex* rank = index.Find(hit.rank);
  if (rows == nullptr || rank == nullptr || hit.row >= rows->op_runs.size()) return {};
  const query::OpRun& run = rows->op_runs[hit.row];
  const query::PlanOp* op = context.snapshot->FindPlanOp(run.plan_op);
  if (op == nullptr) return {};
  TooltipText text;
  const std::string name = analysis::ShortName(*op);
  if (hit.lane.kind == timeline::LaneKind::kHost && op->op_class != query::OpClass::kHost) {
    text.title = ui::TrFormat(context.language, ui::Text::kTimelineIssueOf, name);
    text.detail = ui::TrFormat(context.language, ui::Text::kTimelineStartedAfter,
                               ui::FormatDuration(run.started_ns - run.issued_ns));
    return text;
  }
  text.title = Join(name, ui::FormatDuration(run.ended_ns - run.started_ns));
  if (const query::Collective* collective = index.CollectiveOf(*rows, *rank, hit.row)) {
    const timeline::Arrival* arrival = index.ArrivalOf(*collective);
    const int64_t last_ns = arrival == nullptr ? run.started_ns
                                               : std::clamp(arrival->last_ns, run.started_ns,
                                                            std::max(run.started_ns, run.ended_ns));
    text.detail = ui::TrFormat(context.language, ui::Text::kTimelineWaitTransfer,
                               ui::FormatDuration(last_ns - run.started_ns),
                               ui::FormatDuration(run.ended_ns - last_ns));
  } else if (run.slot_wait_ns > 0) {
    text.detail = ui::TrFormat(context.language, ui::Text::kTimelineSlotWait,
                               ui::FormatDuration(run.slot_wait_ns));
  }
  return text;
}

TooltipText OfWork(const ui::Context& context, const timeline::RunIndex& index, const Hit& hit) {
  const timeline::WorkFacts facts =
      timeline::FactsOfWork(*context.snapshot, index, hit.rank, hit.row);
  if (facts.kind == timeline::WorkFacts::Kind::kNothing) return {};
  TooltipText text;
  text.title = Join(facts.short_name, ui::FormatDuration(facts.end_ns() - facts.start_ns()));
  const std::string delay = ui::FormatDuration(facts.work.start_ns - facts.work.launch_start_ns);
  if (facts.has_arrival) {
    text.detail =
        ui::TrFormat(context.language, ui::Text::kTimelineWaitTransfer,
                     ui::FormatDuration(facts.wait_ns), ui::FormatDuration(facts.transfer_ns));
  } else if (!facts.op.empty()) {
    text.detail = ui::TrFormat(context.language, ui::Text::kTimelineLaunchedFor, facts.op, delay);
  } else if (!facts.launched_by.empty()) {
    text.detail = ui::TrFormat(context.language, ui::Text::kTimelineLaunched, delay);
  }
  return text;
}

TooltipText OfRange(const ui::Context& context, const Hit& hit) {
  const query::RankRows* rows = context.snapshot->FindRank(hit.rank);
  if (rows == nullptr || hit.row >= rows->spans.size()) return {};
  const query::Span& range = rows->spans[hit.row];
  const std::string& name = context.snapshot->names[static_cast<size_t>(range.name)];
  return {Join(name, ui::FormatDuration(range.end_ns - range.start_ns)),
          ui::TrFormat(context.language, ui::Text::kTimelineOnThread, hit.lane.track->name), false};
}

}  // namespace

TooltipText TooltipOfPause(const ui::Context& context, const timeline::Axis& axis, int32_t rank,
                           float x) {
  const query::RankRows* rows = context.snapshot->FindRank(rank);
  if (rows == nullptr) return {};
  for (const timeline::PauseBox& box : timeline::PausesInView(*context.snapshot, *rows, axis, 1)) {
    if (x < box.x0 || x >= box.x1) continue;
    const std::string name = timeline::PauseName(context.language, box.pause.cause);
    if (box.is_open) return {name, ui::Tr(context.language, ui::Text::kTimelinePausedStill), false};
    return {Join(name, ui::FormatDuration(box.pause.end_ns - box.pause.start_ns)),
            ui::TrFormat(context.language, ui::Text::kTimelinePausedTip, box.pause.step - 1,
                         box.pause.step),
            false};
  }
  return {};
}

TooltipText TooltipOf(const ui::Context& context, const timeline::RunIndex& index, const Hit& hit) {
  const int64_t length_ns = hit.range.length_ns();
  switch (hit.kind) {
    case Hit::Kind::kNothing:
      return {};
    case Hit::Kind::kExposed:
      return {Join(ui::Tr(context.language, ui::Text::kExposedCommunication),
                   ui::FormatDuration(length_ns)),
              "", true};
    case Hit::Kind::kStall: {
      const timeline::RankIndex* rank = index.Find(hit.rank);
      if (rank == nullptr || hit.stall >= rank->stalls.size()) return {};
      const analysis::Stall& stall = rank->stalls[hit.stall];
      return {StallTitle(context, stall),
              ui::StallSentence(context.language, stall.cause, stall.cause_object), true};
    }
    case Hit::Kind::kSpan:
      break;
  }
  if (hit.count > 1) {
    return {ui::TrFormat(context.language, ui::Text::kTimelineFolded, hit.count),
            ui::FormatDuration(length_ns), false};
  }
  switch (hit.lane.rows) {
    case timeline::LaneRows::kOps:
      return OfSpan(context, index, hit);
    case timeline::LaneRows::kWork:
      return OfWork(context, index, hit);
    case timeline::LaneRows::kRanges:
      return OfRange(context, hit);
  }
  return {};
}

}  // namespace shardscope::panels
