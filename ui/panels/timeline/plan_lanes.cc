#include "ui/panels/timeline/plan_lanes.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "trace/query/find_op_run.h"
#include "trace/query/step_times.h"
#include "ui/panels/timeline/hit_marks.h"
#include "ui/panels/timeline/under_lanes.h"
#include "ui/text.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using timeline::Axis;
using timeline::Lane;
using widgets::Look;

constexpr std::ptrdiff_t kMostPlannedSteps = 8;  // in view

bool HasPlan(const ui::Context& context) {
  return context.plan.is_on && context.plan.made != nullptr &&
         context.plan.made->planned.problem == ui::PlanProblem::kNone;
}

// The steps of a rank in view that ran the Schedule; none if they are too many.
std::vector<query::Step> PlannedStepsInView(const query::RankRows& rows, const Axis& axis,
                                            const std::set<query::ScheduleId>& schedules) {
  const query::TouchedSteps in_view =
      query::StepsThatTouch(rows, {axis.range().start_ns, axis.range().end_ns});
  std::vector<query::Step> steps;
  if (in_view.size() > kMostPlannedSteps) return steps;
  std::copy_if(in_view.begin(), in_view.end(), std::back_inserter(steps),
               [&](const query::Step& step) { return schedules.contains(step.schedule); });
  return steps;
}

// Returns how many were drawn.
int64_t DrawPlannedOps(const ui::Context& context, const TimelineOverlay::Frame& frame,
                       const Lane& lane, const std::vector<query::Step>& steps) {
  const ui::PlannedStep& planned = context.plan.made->planned;
  const auto ops = planned.ranks.find(lane.rank);
  const UnderLane under(context, frame, lane);
  if (ops == planned.ranks.end() || !under.is_in_sight()) return 0;
  int64_t drawn = 0;
  for (const query::Step& step : steps) {
    for (const ui::PlannedOp& op : ops->second) {
      if (timeline::LaneThatShows(op.role) != lane.source.kind) continue;
      const auto box = under.BoxOf({step.start_ns + op.started_ns, step.start_ns + op.ended_ns});
      if (!box) continue;
      const query::PlanOp* plan_op = context.snapshot->FindPlanOp(op.plan_op);
      if (plan_op == nullptr) continue;
      ImGui::GetWindowDrawList()->AddRect({box->x0, box->y0}, {box->x1, box->y1},
                                          ui::OpColor(*context.theme, plan_op->op_class), 0, 1);
      ++drawn;
    }
  }
  return drawn;
}

// A frame round each op that did not run where the plan has it.
void FrameOutOfOrder(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log) {
  const LanesOfTracks lanes(*context.snapshot, frame.layout);
  for (const ui::SelectedOp& op : context.plan.made->difference.out_of_order) {
    const auto run = query::FindOpRun(*context.snapshot, op.rank, op.op_run);
    if (!run) continue;
    analysis::SearchHit place;
    place.what = analysis::HitKind::kOp;
    place.rank = op.rank;
    place.track = run->track;
    const Lane* lane = lanes.Find(*context.snapshot, place);
    if (lane == nullptr) continue;
    const float y = frame.origin + lane->y;
    const float x0 = std::round(frame.axis.X(run->started_ns));
    const ui::Box box{x0, y, std::max(std::round(frame.axis.X(run->ended_ns)), x0 + 2),
                      y + lane->height};
    if (box.x1 < frame.box.x0 || box.x0 > frame.box.x1) continue;
    ImGui::GetWindowDrawList()->AddRect({box.x0, box.y0}, {box.x1, box.y1},
                                        context.theme->state.pending, 0, 2 * context.scale);
    log->Int(fmt::format("out_of_order:{}:{}", op.rank, op.op_run.value()), "", op.op_run.value(),
             "", box);
  }
}

ui::Text ProblemText(ui::PlanProblem problem) {
  switch (problem) {
    case ui::PlanProblem::kNoSchedule:
      return ui::Text::kPlanNoSchedule;
    case ui::PlanProblem::kUnreadable:
      return ui::Text::kPlanUnreadable;
    case ui::PlanProblem::kMissingRanks:
      return ui::Text::kPlanMissingRanks;
    case ui::PlanProblem::kNoStep:
    case ui::PlanProblem::kNone:
      break;
  }
  return ui::Text::kPlanNoStep;
}

}  // namespace

void DrawPlanLanes(const ui::Context& context, const TimelineOverlay::Frame& frame,
                   ui::DrawLog* log) {
  if (!HasPlan(context)) return;
  const ui::PlannedStep& planned = context.plan.made->planned;
  int64_t drawn = 0;
  for (const timeline::RankBlock& block : frame.layout.ranks) {
    const query::RankRows* rows = context.snapshot->FindRank(block.rank);
    if (rows == nullptr || block.folded) continue;
    const auto steps = PlannedStepsInView(*rows, frame.axis, planned.schedules);
    if (steps.empty()) continue;
    for (size_t at = block.first_lane; at < block.first_lane + block.num_lanes; ++at) {
      const Lane& lane = frame.layout.lanes[at];
      if (lane.source.rows != timeline::LaneRows::kOps) continue;
      drawn += DrawPlannedOps(context, frame, lane, steps);
    }
  }
  log->Int("plan_ops", "", drawn, "", frame.box);
  FrameOutOfOrder(context, frame, log);
}

std::string PlanSentence(ui::Language language, const ui::PlanBesideActual& plan) {
  if (plan.planned.problem != ui::PlanProblem::kNone) {
    return ui::Tr(language, ProblemText(plan.planned.problem));
  }
  const ui::PlanDifference& difference = plan.difference;
  const int64_t longer_ns = difference.actual_ns - difference.planned_ns;
  const std::string times = ui::TrFormat(
      language, longer_ns < 0 ? ui::Text::kPlanShorter : ui::Text::kPlanLonger, difference.step,
      ui::FormatDuration(difference.planned_ns), ui::FormatDuration(difference.actual_ns),
      ui::FormatDuration(std::abs(longer_ns)));
  if (difference.out_of_order.empty()) {
    return times + ui::Tr(language, ui::Text::kPlanInOrder);
  }
  return times + ui::TrFormat(language, ui::Text::kPlanOutOfOrder, difference.out_of_order.size());
}

float DrawPlanSentence(const ui::Context& context, const Axis& axis, float top, ui::DrawLog* log) {
  std::string text = context.plan.made == nullptr
                         ? ui::Tr(context.language, ui::Text::kPlanMaking)
                         : PlanSentence(context.language, *context.plan.made);
  const bool is_elsewhere =
      HasPlan(context) && !timeline::IsStepWithin(*context.snapshot, context.plan.made->step,
                                                  axis.range().start_ns, axis.range().end_ns);
  if (is_elsewhere) text += ui::Tr(context.language, ui::Text::kStepNotInView);
  return DrawLineUnderRuler(context, axis, top, {"plan", text}, log);
}

}  // namespace shardscope::panels
