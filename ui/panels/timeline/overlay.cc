#include "ui/panels/timeline/overlay.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <optional>

#include "trace/analysis/names.h"
#include "trace/base/units.h"
#include "trace/query/find_op_run.h"
#include "trace/query/find_track.h"
#include "ui/boxes.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/run_index.h"
#include "ui/values.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using timeline::Lane;
using timeline::LaneKind;
using widgets::Look;

const Lane* FindLane(const timeline::Layout& layout, int32_t rank, LaneKind kind) {
  for (const Lane& lane : layout.lanes) {
    if (lane.rank == rank && lane.source.kind == kind) return &lane;
  }
  return nullptr;
}

// A callout beside a lane that is out of sight would seem to be of another one.
bool IsInSight(const TimelineOverlay::Frame& frame, const Lane& lane) {
  const float y = frame.origin + lane.y;
  return y < frame.box.y1 && y + lane.height > frame.box.y0;
}

// The lane in sight of the rank that a link names, else of the first rank that has one.
const Lane* GatherLaneInSight(const ui::Context& context, const TimelineOverlay::Frame& frame) {
  const int32_t wanted = context.lanes.shown_rank;
  for (const Lane& lane : frame.layout.lanes) {
    const bool is_wanted = wanted < 0 || lane.rank == wanted;
    if (is_wanted && lane.source.kind == LaneKind::kAllGather && IsInSight(frame, lane)) {
      return &lane;
    }
  }
  return nullptr;
}

// A curve that leaves and arrives horizontally or vertically, over a darker one so that it reads on
// any ground.
struct Curve {
  ImVec2 from;
  ImVec2 from_pull;
  ImVec2 to_pull;
  ImVec2 to;
};
void DrawCurve(const Look& look, const Curve& curve) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddBezierCubic(curve.from, curve.from_pull, curve.to_pull, curve.to,
                       ui::WithAlpha(look.theme.surface.panel, 0.75F), look.Px(4));
  list->AddBezierCubic(curve.from, curve.from_pull, curve.to_pull, curve.to, look.theme.ink.text,
                       look.Px(1.6F));
}

void DrawArrowHead(const Look& look, ImVec2 tip) {
  const float size = look.Px(7);
  ImGui::GetWindowDrawList()->AddTriangleFilled({tip.x, tip.y}, {tip.x - size, tip.y - size * 0.6F},
                                                {tip.x - size, tip.y + size * 0.6F},
                                                look.theme.ink.text);
}

using timeline::Lane;
using timeline::LaneKind;
using timeline::StreamWait;
using timeline::WaitEnd;
using widgets::Look;

// Height on screen of a wait's end; nullopt if its lane is folded away.
std::optional<float> HeightOf(const ui::Context& context, const TimelineOverlay::Frame& frame,
                              const WaitEnd& end) {
  LaneKind kind = LaneKind::kStream;
  const query::Track* track = end.is_op ? query::FindTrack(*context.snapshot, end.track) : nullptr;
  if (track != nullptr) kind = timeline::LaneThatShows(track->role);
  const bool strip = track != nullptr && timeline::LaneOf(track->role) == LaneKind::kCopy;
  for (const Lane& lane : frame.layout.lanes) {
    if (lane.rank != end.rank || lane.source.kind != kind) continue;
    if (!end.is_op && lane.source.track->track != end.track) continue;
    const float height = strip ? timeline::kCopyStripHeight * context.scale : lane.height;
    return frame.origin + lane.y + height / 2;
  }
  return std::nullopt;
}

ui::Color ColorOf(const Look& look, const StreamWait& wait) {
  return wait.differs() ? look.theme.op.exposed : look.theme.ink.text;
}

ImVec2 BezierAt(const std::array<ImVec2, 4>& points, float share) {
  const float rest = 1 - share;
  const std::array<float, 4> weights = {rest * rest * rest, 3 * rest * rest * share,
                                        3 * rest * share * share, share * share * share};
  ImVec2 at;
  for (size_t i = 0; i < points.size(); ++i) {
    at.x += weights[i] * points[i].x;
    at.y += weights[i] * points[i].y;
  }
  return at;
}

// The event is a ring where it was reached; a wait that was not seen is dotted.
void DrawLine(const Look& look, ImVec2 from, ImVec2 to, const StreamWait& wait) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Color color = ColorOf(look, wait);
  const ui::Color shadow = ui::WithAlpha(look.theme.surface.panel, 0.75F);
  const float pull = std::max((to.x - from.x) / 2, look.Px(10));
  const ImVec2 from_pull(from.x + pull, from.y);
  const ImVec2 to_pull(to.x - pull, to.y);
  if (wait.verdict == StreamWait::Verdict::kMissing) {
    constexpr int kDots = 24;
    for (int dot = 1; dot < kDots; ++dot) {
      const ImVec2 at = BezierAt({from, from_pull, to_pull, to},
                                 static_cast<float>(dot) / static_cast<float>(kDots));
      list->AddCircleFilled(at, look.Px(1.4F), color, 8);
    }
  } else {
    list->AddBezierCubic(from, from_pull, to_pull, to, shadow, look.Px(3));
    list->AddBezierCubic(from, from_pull, to_pull, to, color, look.Px(1));
  }
  list->AddCircleFilled(from, look.Px(3.5F), look.theme.surface.panel, 12);
  list->AddCircle(from, look.Px(3), color, 12, look.Px(1.3F));
  const float size = look.Px(5);
  list->AddTriangleFilled(to, {to.x - size, to.y - size * 0.6F}, {to.x - size, to.y + size * 0.6F},
                          color);
}

const char* PrefixOf(const StreamWait& wait) {
  if (wait.verdict == StreamWait::Verdict::kMissing) return "wait_missing";
  return wait.verdict == StreamWait::Verdict::kExtra ? "wait_extra" : "wait";
}

}  // namespace

std::string StallBeforeText(const ui::Context& context, const analysis::Stall& stall) {
  std::string waiting = stall.op_name;
  if (const auto run = query::FindOpRun(*context.snapshot, stall.rank, stall.op_run)) {
    const query::PlanOp* op = context.snapshot->FindPlanOp(run->plan_op);
    if (op != nullptr) waiting = analysis::ShortName(*op);
  }
  return ui::TrFormat(context.language, ui::Text::kTimelineStallBefore,
                      ui::FormatDuration(stall.stall_ns), waiting);
}

void TimelineOverlay::Update(const ui::Context& context) {
  const query::Snapshot& snapshot = *context.snapshot;
  const bool same_op =
      run_folder_ == snapshot.run_folder &&
      timeline::AreFactsOf(facts_, context.selection.rank, context.selection.op_run);
  const bool same_rows = generation_ == snapshot.generation;
  if (same_op && (same_rows || timeline::AreSettled(facts_, snapshot))) return;
  facts_ = timeline::FactsOf(snapshot, context.selection.rank, context.selection.op_run);
  run_folder_ = snapshot.run_folder;
  generation_ = snapshot.generation;
}

void TimelineOverlay::Draw(const ui::Context& context, const Frame& frame, ui::DrawLog* log) {
  callout_ = {};
  if (context.selection.span.is_none()) {
    work_ = {};
  } else {
    const bool same =
        work_.kind != timeline::WorkFacts::Kind::kNothing && work_.id() == context.selection.span &&
        work_.rank == context.selection.rank && run_folder_ == context.snapshot->run_folder &&
        generation_ == context.snapshot->generation;
    if (!same) {
      work_ = timeline::WorkFactsOf(*context.snapshot, frame.index, context.selection.rank,
                                    context.selection.span);
      run_folder_ = context.snapshot->run_folder;
      generation_ = context.snapshot->generation;
      facts_ = {};
    }
    DrawLaunch(context, frame, work_, log);
  }
  if (!context.selection.op_run.is_none()) {
    Update(context);
    if (facts_.found && facts_.slack.found) {
      callout_ = DrawArrow(context, frame, log);
    } else if (facts_.found) {
      DrawIssue(context, frame, log);
    }
  }
  if (context.headless) DrawStallCallout(context, frame, log);
}

void TimelineOverlay::DrawLaunchOf(const ui::Context& context, const Frame& frame, int32_t rank,
                                   uint32_t row, ui::DrawLog* log) const {
  DrawLaunch(context, frame, timeline::FactsOfWork(*context.snapshot, frame.index, rank, row), log);
}

void TimelineOverlay::DrawLaunch(const ui::Context& context, const Frame& frame,
                                 const timeline::WorkFacts& facts, ui::DrawLog* log) const {
  if (facts.kind != timeline::WorkFacts::Kind::kWork || facts.launched_by.empty()) return;
  const Look look = widgets::LookOf(context);
  const Lane* from = nullptr;  // the thread's outermost ranges, else the host lane
  const Lane* to = nullptr;
  for (const Lane& lane : frame.layout.lanes) {
    if (lane.rank != facts.rank) continue;
    const timeline::LaneSource& source = lane.source;
    if (source.kind == LaneKind::kHost && from == nullptr) from = &lane;
    if (source.kind == LaneKind::kThread && source.track->track == facts.work.launch_track &&
        (from == nullptr || from->source.kind == LaneKind::kHost)) {
      from = &lane;
    }
    if (source.kind == LaneKind::kStream && source.track->track == facts.work.track) to = &lane;
  }
  if (from == nullptr || to == nullptr) return;
  const float launch_x = frame.axis.X(facts.work.launch_start_ns);
  const float start_x = frame.axis.X(facts.work.start_ns);
  if (start_x < frame.axis.left() || launch_x > frame.axis.right()) return;
  const float from_y = frame.origin + from->y + from->height / 2;
  const float to_y = frame.origin + to->y + to->height / 2;
  const float pull = std::max((start_x - launch_x) / 2, look.Px(8));
  DrawCurve(look, {{launch_x, from_y},
                   {launch_x, from_y + (to_y - from_y) * 0.6F},
                   {start_x - pull, to_y},
                   {start_x, to_y}});
  DrawArrowHead(look, {start_x, to_y});
  const int64_t delay_ns = facts.work.start_ns - facts.work.launch_start_ns;
  log->Int(
      fmt::format("launch:{}:{}", facts.rank, facts.work.id.value()),
      ui::TrFormat(context.language, ui::Text::kTimelineLaunched, ui::FormatDuration(delay_ns)),
      delay_ns, "ns",
      {std::min(launch_x, start_x), std::min(from_y, to_y), std::max(launch_x, start_x),
       std::max(from_y, to_y)});
}

ui::Box TimelineOverlay::DrawArrow(const ui::Context& context, const Frame& frame,
                                   ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const int32_t rank = context.selection.rank;
  const Lane* host = FindLane(frame.layout, rank, LaneKind::kHost);
  const Lane* compute = FindLane(frame.layout, rank, LaneKind::kCompute);
  const Lane* gather = FindLane(frame.layout, rank, LaneKind::kAllGather);
  if (host == nullptr || compute == nullptr || gather == nullptr) return {};
  const float issue_x = frame.axis.X(facts_.run.issued_ns);
  const float start_x = frame.axis.X(facts_.run.started_ns);
  const float end_x = frame.axis.X(facts_.run.ended_ns);
  const float use_x = frame.axis.X(facts_.slack.first_use_ns);
  if (use_x < frame.axis.left() || issue_x > frame.axis.right()) return {};
  if (std::max(use_x, end_x) - issue_x < look.Px(24)) return {};  // too coarse to show a path
  const float host_y = frame.origin + host->y + host->height / 2;
  const float gather_y = frame.origin + gather->y + gather->height / 2;
  const float use_y = frame.origin + compute->y + compute->height / 2;
  const float drop = gather_y - host_y;
  DrawCurve(look, {{issue_x, host_y},
                   {issue_x, host_y + drop * 0.6F},
                   {start_x - look.Px(10), gather_y},
                   {start_x, gather_y}});
  // The use may lie before the end (a stall): then the curve goes back, as it should.
  const float tip_x = std::max(use_x, end_x);
  DrawCurve(look, {{end_x, gather_y},
                   {end_x + look.Px(14), gather_y},
                   {tip_x - look.Px(18), use_y},
                   {tip_x - look.Px(2), use_y}});
  DrawArrowHead(look, {tip_x, use_y});
  if (!IsInSight(frame, *gather)) return {};
  const bool late = facts_.slack.slack_ns < 0;
  timeline::Callout callout;
  callout.title = ui::TrFormat(context.language, ui::Text::kTimelineSlack,
                               ui::FormatDuration(facts_.slack.slack_ns));
  callout.border = late ? look.theme.op.exposed : look.theme.ink.text;
  if (late && facts_.stall) {
    callout.detail = ui::StallSentence(context.language, *facts_.stall);
  }
  const ImVec2 at(start_x - look.Px(14), frame.origin + gather->y + gather->height + look.Px(5));
  const ui::Box drawn = timeline::DrawCallout(look, at, frame.box, callout);
  log->Int("slack", callout.title, facts_.slack.slack_ns, "ns", drawn);
  return drawn;
}

void TimelineOverlay::DrawIssue(const ui::Context& context, const Frame& frame,
                                ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const int32_t rank = context.selection.rank;
  const Lane* host = FindLane(frame.layout, rank, LaneKind::kHost);
  const WaitEnd op{.rank = rank, .track = facts_.run.track, .is_op = true};
  const std::optional<float> op_y = HeightOf(context, frame, op);
  if (host == nullptr || !op_y) return;
  const float issue_x = frame.axis.X(facts_.run.issued_ns);
  const float start_x = frame.axis.X(facts_.run.started_ns);
  if (start_x < frame.axis.left() || issue_x > frame.axis.right()) return;
  if (start_x - issue_x < look.Px(8)) return;  // its head alone is as long
  const float host_y = frame.origin + host->y + host->height / 2;
  DrawCurve(look, {{issue_x, host_y},
                   {issue_x, host_y + (*op_y - host_y) * 0.6F},
                   {start_x - look.Px(10), *op_y},
                   {start_x, *op_y}});
  DrawArrowHead(look, {start_x, *op_y});
  const int64_t wait_ns = facts_.run.started_ns - facts_.run.issued_ns;
  log->Int("issue_arrow", facts_.name, wait_ns, "ns",
           {issue_x, std::min(host_y, *op_y), start_x, std::max(host_y, *op_y)});
}

void TimelineOverlay::DrawStallCallout(const ui::Context& context, const Frame& frame,
                                       ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  const Lane* gather = GatherLaneInSight(context, frame);
  const timeline::RankIndex* rank = gather == nullptr ? nullptr : frame.index.Find(gather->rank);
  if (rank == nullptr) return;
  const int32_t step = context.lanes.shown_step;
  // With a change in view the stall belongs to the time before it: what the change is about.
  int64_t until_ns = frame.axis.range().end_ns;
  for (const timeline::Change& change : timeline::ChangesOf(*context.snapshot)) {
    if (step < 0 && change.time_ns > frame.axis.range().start_ns) {
      until_ns = std::min(until_ns, change.time_ns);
    }
  }
  const analysis::Stall* dearest = nullptr;
  for (const analysis::Stall* one : rank->stalls) {
    const analysis::Stall& stall = *one;
    if (stall.blocking_op_run.is_none() || stall.end_ns > until_ns) continue;
    if (step >= 0 && stall.step != step) continue;
    if (facts_.found && stall.blocking_op_run == facts_.run.id) continue;  // the arrow shows it
    const float x0 = frame.axis.X(stall.start_ns);
    const float x1 = frame.axis.X(stall.end_ns);
    if (x0 < frame.axis.left() || x1 > frame.axis.right() || x1 - x0 < look.Px(12)) continue;
    const ui::Box covered{x0, callout_.y0, x0 + look.Px(200), callout_.y1};
    if (ui::Intersects(covered, callout_)) continue;
    if (dearest == nullptr || stall.stall_ns > dearest->stall_ns) dearest = &stall;
  }
  if (dearest == nullptr) return;
  const timeline::Callout callout{StallBeforeText(context, *dearest),
                                  ui::StallSentence(context.language, *dearest),
                                  look.theme.op.exposed};
  const ImVec2 at(frame.axis.X(dearest->start_ns) + look.Px(2),
                  frame.origin + gather->y + gather->height - look.Px(2));
  const ui::Box drawn = timeline::DrawCallout(look, at, frame.box, callout);
  log->Int("stall", callout.title, dearest->stall_ns, "ns", drawn);
  log->Text("stall_cause", callout.detail, drawn);
}

void WaitLines::Update(const ui::Context& context) {
  const ui::Selection& selection = context.selection;
  const query::Snapshot& snapshot = *context.snapshot;
  const ui::SelectedOp op{selection.op_run, selection.rank};
  const bool same = run_folder_ == snapshot.run_folder && op_ == op && span_ == selection.span &&
                    report_ == context.report;
  if (same) return;
  run_folder_ = snapshot.run_folder;
  op_ = op;
  span_ = selection.span;
  report_ = context.report;
  waits_.clear();
  const query::RankRows* rows = snapshot.FindRank(selection.rank);
  if (rows == nullptr) return;
  const analysis::EdgeCheck* check = report_ == nullptr ? nullptr : &report_->edges;
  if (!selection.span.is_none()) {
    const uint32_t row = timeline::FindWorkRow(*rows, selection.span);
    if (row == timeline::kNoRow) return;
    waits_ = timeline::WaitsOfWork(snapshot, *context.index, check, selection.rank, row);
  } else if (!selection.op_run.is_none()) {
    const uint32_t row = timeline::FindRow(*rows, selection.op_run);
    if (row == timeline::kNoRow) return;
    waits_ = timeline::WaitsOfOp(snapshot, check, selection.rank, rows->op_runs[row]);
  }
}

void WaitLines::Draw(const ui::Context& context, const TimelineOverlay::Frame& frame,
                     ui::DrawLog* log) {
  Update(context);
  const Look look = widgets::LookOf(context);
  for (const StreamWait& wait : waits_) {
    const std::optional<float> from_y = HeightOf(context, frame, wait.from);
    const std::optional<float> to_y = HeightOf(context, frame, wait.to);
    if (!from_y || !to_y) continue;
    const ImVec2 from(frame.axis.X(wait.from.time_ns), *from_y);
    const ImVec2 to(frame.axis.X(wait.to.time_ns), *to_y);
    if (to.x < frame.axis.left() || from.x > frame.axis.right()) continue;
    DrawLine(look, from, to, wait);
    log->Int(fmt::format("{}:{}:{}", PrefixOf(wait), wait.from.number(), wait.to.number()),
             wait.from.name + " \xE2\x86\x92 " + wait.to.name, wait.to.time_ns - wait.from.time_ns,
             "ns",
             {std::min(from.x, to.x), std::min(from.y, to.y), std::max(from.x, to.x),
              std::max(from.y, to.y)});
  }
}

}  // namespace shardscope::panels
