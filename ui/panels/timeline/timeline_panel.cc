#include "ui/panels/timeline/timeline_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "trace/analysis/names.h"
#include "trace/base/units.h"
#include "trace/query/has_ended.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/timeline/area_marker.h"
#include "ui/panels/timeline/beside_lanes.h"
#include "ui/panels/timeline/critical_path.h"
#include "ui/panels/timeline/hit_marks.h"
#include "ui/panels/timeline/overlay.h"
#include "ui/panels/timeline/pair_lines.h"
#include "ui/panels/timeline/plan_lanes.h"
#include "ui/panels/timeline/under_lanes.h"
#include "ui/ranks.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/gpu/work_facts.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using timeline::Hit;

std::string Titled(const std::string& name, const std::string& value) {
  return name + "  " + value;
}

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
  text.title = Titled(name, ui::FormatDuration(run.ended_ns - run.started_ns));
  if (const std::optional<query::Collective> collective =
          index.CollectiveOf(*rows, *rank, hit.row)) {
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
  text.title = Titled(facts.short_name, ui::FormatDuration(facts.end_ns() - facts.start_ns()));
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
  return {query::HasEnded(*context.snapshot, range)
              ? Titled(name, ui::FormatDuration(range.end_ns - range.start_ns))
              : name,
          ui::TrFormat(context.language, ui::Text::kTimelineOnThread,
                       ui::TrackText(context.language, hit.lane.track->name)),
          false};
}

using timeline::Axis;
using timeline::Lane;
using timeline::LaneKind;
using timeline::LaneRows;
using timeline::RankBlock;
using widgets::Look;

constexpr float kScrollPixels = 48;  // a notch of the wheel over the gutter
constexpr float kBelowLanes = 28;    // room for the labels of changes under the last rank
constexpr float kHiddenLine = 20;
constexpr float kLeastHeight = 20;  // of the lanes

// Under the lanes, in sight however far they are scrolled: that ranks have none, with a link that
// shows them. From `top` to `bottom` there is room for both; returns where the lanes end.
float DrawHiddenRanks(const ui::Context& context, float top, float bottom, ui::DrawLog* log,
                      ui::Commands* commands) {
  const std::set<int32_t>& hidden = context.lanes.hidden_ranks;
  const auto count = std::ranges::count_if(
      hidden, [&](int32_t rank) { return context.snapshot->FindRank(rank) != nullptr; });
  if (count == 0) return bottom;
  const Look look = widgets::LookOf(context);
  const float end = std::max(bottom - look.Px(kHiddenLine), top + look.Px(kLeastHeight));
  const std::string text = ui::TrFormat(context.language, ui::Text::kTimelineHiddenRanks, count);
  ImGui::SetCursorScreenPos(
      {ImGui::GetWindowPos().x + look.Px(ui::kPanelPadding), end + look.Px(3)});
  if (widgets::LinkText(look, "hidden_ranks", text)) {
    const std::vector<int32_t> ranks(hidden.begin(), hidden.end());
    commands->push_back(ui::PlaceRanks{ranks, ui::RankPlace::kInOrder});
  }
  log->Int("hidden_ranks", text, count, "", PanelFrame::LastItem());
  return end;
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
    return {Titled(name, ui::FormatDuration(box.pause.end_ns - box.pause.start_ns)),
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
      return {Titled(ui::Tr(context.language, ui::Text::kExposedCommunication),
                     ui::FormatDuration(length_ns)),
              "", true};
    case Hit::Kind::kStall: {
      const timeline::RankIndex* rank = index.Find(hit.rank);
      if (rank == nullptr || hit.stall >= rank->stalls.size()) return {};
      const analysis::Stall& stall = *rank->stalls[hit.stall];
      return {StallBeforeText(context, stall), ui::StallSentence(context.language, stall), true};
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

void TimelinePanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const PanelFrame frame{context, look, log, commands};
  if (std::exchange(path_, context.path) != context.path) {
    lanes_.clear();
    layout_ = {};
    scroll_ = 0;
  }
  if (context.snapshot == nullptr) return frame.Empty(ui::Text::kNoRunOpen);
  index_ = context.index.get();
  if (context.snapshot->ranks.empty() || context.snapshot->end_ns <= context.snapshot->start_ns) {
    const bool more_may_come =
        context.snapshot->loading || context.snapshot->state == query::TraceState::kLive;
    return frame.Empty(ui::TrFormat(
        context.language, more_may_come ? ui::Text::kWaitingForRows : ui::Text::kTimelineNoRows,
        context.snapshot->name));
  }
  const Axis axis = timeline::WindowAxis(context);
  header_.Draw(context, axis, log, commands);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const float room_end = top.y + std::max(ImGui::GetContentRegionAvail().y, look.Px(kLeastHeight));
  const float bottom = DrawHiddenRanks(context, top.y, room_end, log, commands);
  const ui::Box box{axis.left(), top.y, axis.right(), bottom};
  UpdateLayout(context, ImGui::GetIO().MousePos.y - box.y0);
  HandleMouse(context, axis, box, commands);
  HandleScroll(context, axis, box);
  DrawLanes(context, axis, box, log);
  rank_drag_.Draw(context, {*index_, layout_, axis, box, box.y0 - std::round(scroll_)}, log);
  DrawScrollBar(context, box);
  DrawTooltip(context, log);
}

void TimelinePanel::UpdateLayout(const ui::Context& context, float mouse_y) {
  std::vector<timeline::RankLanes> lanes;
  for (const int32_t rank : ui::RanksInOrder(*context.snapshot, context.lanes)) {
    const timeline::RankIndex* found = index_->Find(rank);
    if (found != nullptr) lanes.push_back(timeline::LanesOf(*found));
  }
  timeline::Layout layout = timeline::MakeLayout(lanes, context.lanes.folded_ranks, context.scale,
                                                 RoomUnderLanes(context));
  if (layout.height != layout_.height && layout_.height > 0) {
    scroll_ = timeline::AnchoredScroll(layout_, layout, scroll_, mouse_y);
  }
  layout_ = std::move(layout);
  // Pinned lanes stand over all others, out of sight where those are scrolled.
  const std::set<int32_t> before = std::exchange(pinned_, context.lanes.pinned_ranks);
  if (!std::includes(before.begin(), before.end(), pinned_.begin(), pinned_.end())) scroll_ = 0;
}

const timeline::LaneDraw& TimelinePanel::LaneDrawOf(const ui::Context& context, const Lane& lane,
                                                    const Axis& axis) {
  const timeline::LaneSource& source = lane.source;
  const query::TrackId track =
      source.track == nullptr ? query::TrackId::None() : source.track->track;
  CachedLane& cached = lanes_[{lane.rank, source.kind, track, source.level}];
  const LaneKey key{index_->version(), axis.range(), axis.left(), axis.width()};
  if (cached.key == key) return cached.draw;
  cached.key = key;
  const query::RankRows* rows = context.snapshot->FindRank(lane.rank);
  if (rows == nullptr) {
    cached.draw = {};
  } else {
    cached.draw = timeline::Preprocess(*index_, *rows, source, axis, cached.draw.dense);
  }
  return cached.draw;
}

void TimelinePanel::DrawLanes(const ui::Context& context, const Axis& axis, const ui::Box& box,
                              ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const float origin = box.y0 - std::round(scroll_);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->PushClipRect({ImGui::GetWindowPos().x, box.y0}, {box.x1, box.y1}, true);
  timeline::DrawStepLines(context, axis, box.y0, box.y1);
  list->AddRectFilled({axis.left() - 1, box.y0}, {axis.left(), box.y1},
                      context.theme->surface.line);
  DrawGutter(context, box, log);
  list->PushClipRect({box.x0, box.y0}, {box.x1, box.y1}, true);
  timeline::DrawPausesOfRanks(context, axis, layout_, origin, log);
  const timeline::LanePainter painter{context, axis, log, &labels_};
  const auto [first, last] = timeline::VisibleLanes(layout_, scroll_, scroll_ + box.y1 - box.y0);
  for (size_t at = first; at < last; ++at) {
    const Lane& lane = layout_.lanes[at];
    const float y = origin + lane.y;
    painter.Draw(LaneDrawOf(context, lane, axis), lane, {box.x0, y, box.x1, y + lane.height});
  }
  const std::vector<timeline::Change> changes = timeline::ChangesOf(*context.snapshot);
  const float below = origin + layout_.height + look.Px(6);
  const float label_y = std::min(below, box.y1 - look.Px(22));
  std::vector<ui::Box> labels =
      timeline::DrawChanges(context, changes, axis, box, std::round(label_y), log);
  timeline::DrawErrors(context, analysis::ErrorsOf(*context.snapshot), axis, box,
                       std::round(label_y), log);
  DrawPlanLanes(context, {*index_, layout_, axis, box, origin}, log);
  DrawBesideLanes(context, {*index_, layout_, axis, box, origin}, log);
  DrawCriticalPath(context, {*index_, layout_, axis, box, origin}, log);
  DrawHitMarks(context, {*index_, layout_, axis, box, origin}, log);
  DrawAreaInLanes(context, {*index_, layout_, axis, box, origin}, log);
  DrawPairLines(context, {*index_, layout_, axis, box, origin}, log);
  collective_lines_.Draw(context, {*index_, layout_, axis, box, origin}, hovered_, log);
  wait_lines_.Draw(context, {*index_, layout_, axis, box, origin}, log);
  overlay_.Draw(context, {*index_, layout_, axis, box, origin}, log);
  if (const ui::Box& callout = overlay_.callout(); callout.x1 > callout.x0) {
    labels.push_back(callout);
  }
  collective_lines_.DrawCameLast(context, {*index_, layout_, axis, box, origin}, labels, log);
  const bool on_work = hovered_.kind == timeline::Hit::Kind::kSpan && hovered_.count == 1 &&
                       hovered_.lane.rows == LaneRows::kWork;
  if (on_work) {
    overlay_.DrawLaunchOf(context, {*index_, layout_, axis, box, origin}, hovered_.rank,
                          hovered_.row, log);
  }
  timeline::DrawLens(context, axis, box.y0, box.y1);
  timeline::DrawCursor(context, axis, box.y0, box.y1);
  list->PopClipRect();
  list->PopClipRect();
}

void TimelinePanel::DrawGutter(const ui::Context& context, const ui::Box& box, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const ui::Theme& theme = *context.theme;
  const float left = ImGui::GetWindowPos().x;
  const float origin = box.y0 - std::round(scroll_);
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (const RankBlock& block : layout_.ranks) {
    const float y = origin + block.y;
    if (y > box.y1 || y + block.height < box.y0) continue;
    list->AddRectFilled({left, y + block.height - 1}, {box.x1, y + block.height},
                        theme.surface.line);
    const float name_y = y + look.Px(ui::kGrid);
    const std::string name = ui::TrFormat(context.language, ui::Text::kRankN, block.rank);
    const widgets::TextStyle style{look.fonts.bold, ui::kTextSize,
                                   block.folded ? theme.ink.dim : theme.ink.text};
    const ui::Box drawn =
        widgets::DrawText(look, style, {left + look.Px(ui::kPanelPadding), name_y}, name);
    log->Int("rank:" + std::to_string(block.rank), name, block.rank, "", drawn);
    widgets::DrawFoldMark(look, {drawn.x1 + look.Px(9), name_y + look.Px(7)}, block.folded);
  }
  const auto [first, last] = timeline::VisibleLanes(layout_, scroll_, scroll_ + box.y1 - box.y0);
  for (size_t at = first; at < last; ++at) {
    const Lane& lane = layout_.lanes[at];
    widgets::TextStyle style = widgets::DimOf(look);
    style.size = ui::kSmallTextSize;
    if (lane.source.kind == LaneKind::kExposed) style.color = theme.state.bad;
    const std::string name = lane.source.Label(context.language);
    const float y = origin + lane.y + (lane.height - look.Px(13)) / 2;
    const float right = box.x0 - look.Px(8);
    const float room = right - left - look.Px(ui::kGrid);
    const ui::Box drawn =
        widgets::TextSize(look, style, name).x > room
            ? widgets::DrawTextClipped(look, style, {left + look.Px(ui::kGrid), y}, room, name)
            : widgets::DrawTextRight(look, style, {right, y}, name);
    const timeline::TrackLane* track = lane.source.track;
    if (track == nullptr || name.empty()) continue;
    const bool is_stream = lane.source.kind == LaneKind::kStream;
    if (is_stream) {
      DrawChannel(context, lane, {drawn.x0 - look.Px(5), origin + lane.y + lane.height / 2}, log);
    }
    log->Int(
        fmt::format("{}:{}:{}", is_stream ? "stream" : "thread", lane.rank, track->track.value()),
        name, static_cast<int64_t>(track->num_spans), "", drawn);
  }
}

// The number of the stream's hardware queue; framed where another stream of the process uses it.
void TimelinePanel::DrawChannel(const ui::Context& context, const Lane& lane, ImVec2 right_middle,
                                ui::DrawLog* log) {
  const timeline::TrackLane& stream = *lane.source.track;
  if (!stream.has_channel) return;
  const Look look = widgets::LookOf(context);
  const timeline::TrackLane* other =
      lane.source.rank->tracks.SharesChannel(*context.snapshot, stream);
  const std::string text = stream.several_channels ? "q*" : fmt::format("q{}", stream.channel);
  widgets::TextStyle style = widgets::FaintOf(look);
  if (other != nullptr) style.color = look.theme.state.bad;
  const ImVec2 size = widgets::TextSize(look, style, text);
  const ui::Box box{right_middle.x - size.x - look.Px(6), right_middle.y - look.Px(7),
                    right_middle.x, right_middle.y + look.Px(7)};
  if (other != nullptr) {
    ImGui::GetWindowDrawList()->AddRect({box.x0, box.y0}, {box.x1, box.y1}, look.theme.op.exposed,
                                        look.Px(3), look.Px(1));
  }
  widgets::DrawTextCentered(look, style, box, text);
  const std::string tip =
      other == nullptr ? ui::TrFormat(context.language, ui::Text::kTimelineChannel, stream.channel)
                       : ui::TrFormat(context.language, ui::Text::kTimelineChannelShared,
                                      stream.channel, other->name);
  log->Int(fmt::format("channel:{}:{}", lane.rank, stream.track.value()), tip, stream.channel,
           other == nullptr ? "" : "shared", box);
  if (context.headless) return;
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const bool over = mouse.x >= box.x0 && mouse.x < box.x1 && mouse.y >= box.y0 && mouse.y < box.y1;
  if (over) tooltip_ = {tip, "", other != nullptr};
}

void TimelinePanel::HandleMouse(const ui::Context& context, const Axis& axis, const ui::Box& box,
                                ui::Commands* commands) {
  input_.Handle(context, axis, "##lanes", box, commands);
  hovered_ = {};
  tooltip_ = {};
  if (context.headless) return;
  const bool over = ImGui::IsItemHovered() || input_.clicked();
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float y = mouse.y - box.y0 + std::round(scroll_);
  const bool on_axis = over && mouse.x >= axis.left();
  const RankBlock* block = timeline::RankAt(layout_, y);
  if (on_axis) hovered_ = timeline::HitTest(layout_, axis, mouse.x, y);
  if (input_.on_axis() && block != nullptr) {
    commands->push_back(ui::SetHover{axis.Ns(mouse.x), block->rank});
  }
  const timeline::Hit& hit = hovered_;
  input_.Hold(hit.kind != timeline::Hit::Kind::kNothing, commands);
  rank_drag_.Handle(context, {*index_, layout_, axis, box, box.y0 - std::round(scroll_)}, &input_,
                    commands);
  if (over && !on_axis) HandleGutter(context, y, commands);
  if (const auto& marking = input_.marking()) {
    MarkLanes(context, layout_, box.y0 - std::round(scroll_), *marking, commands);
  }
  if (!on_axis) return;
  if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left) &&
      hit.kind != timeline::Hit::Kind::kNothing) {
    const timeline::Range fit = timeline::FitWithMargin(hit.range);
    commands->push_back(ui::SetView{fit.start_ns, fit.end_ns, true, false});
  } else if (input_.clicked()) {
    Select(context, hit, commands);
  }
  if (ImGui::IsItemActive()) return;
  const bool on_nothing = hit.kind == timeline::Hit::Kind::kNothing && block != nullptr;
  tooltip_ = on_nothing ? TooltipOfPause(context, axis, block->rank, mouse.x)
                        : TooltipOf(context, *index_, hit);
}

void TimelinePanel::HandleGutter(const ui::Context& context, float y, ui::Commands* commands) {
  const RankBlock* block = timeline::RankAt(layout_, y);
  if (block == nullptr) return;
  if (input_.clicked()) commands->push_back(ui::ToggleRank{block->rank});
  if (!ImGui::IsItemHovered(ImGuiHoveredFlags_ForTooltip) || ImGui::IsItemActive()) return;
  const ui::Text tip = block->folded ? ui::Text::kTimelineUnfold : ui::Text::kTimelineFold;
  const char* drag =
      layout_.ranks.size() > 1 ? ui::Tr(context.language, ui::Text::kTimelineDragRank) : "";
  tooltip_ = {ui::Tr(context.language, tip), drag, false};
}

// After all that it must not cover.
void TimelinePanel::DrawTooltip(const ui::Context& context, ui::DrawLog* log) const {
  if (tooltip_.title.empty()) return;
  const ui::Color border = tooltip_.warns ? context.theme->op.exposed : context.theme->surface.line;
  const ui::Box callout = overlay_.callout();
  log->Text("tooltip", tooltip_.title + "\n" + tooltip_.detail,
            widgets::Tooltip(widgets::LookOf(context), tooltip_.title, tooltip_.detail, border,
                             {&callout, 1}));
}

void TimelinePanel::HandleScroll(const ui::Context& context, const Axis& axis, const ui::Box& box) {
  scroll_ -= input_.vertical_drag();
  const ImGuiIO& io = ImGui::GetIO();
  if (!context.headless && ImGui::IsItemHovered() && io.MousePos.x < axis.left()) {
    scroll_ -= io.MouseWheel * kScrollPixels * context.scale;
  }
  ScrollToRank(context, box.y1 - box.y0);
  ScrollToRevealed(context, box);
  const float room = layout_.height - (box.y1 - box.y0);
  scroll_ = std::clamp(scroll_, 0.0F, room > 0 ? room + kBelowLanes * context.scale : 0.0F);
}

// The lane of a hit in the middle, unless it is in sight.
void TimelinePanel::ScrollToRevealed(const ui::Context& context, const ui::Box& box) {
  const ui::Revealed& revealed = context.revealed;
  if (revealed_ == revealed.count) return;
  revealed_ = revealed.count;
  if (!revealed.what) return;
  const Lane* lane =
      LanesOfTracks(*context.snapshot, layout_).Find(*context.snapshot, *revealed.what);
  if (lane == nullptr) return;
  const float height = box.y1 - box.y0;
  const bool in_sight = lane->y >= scroll_ && lane->y + lane->height <= scroll_ + height;
  if (!in_sight) scroll_ = lane->y + lane->height / 2 - height / 2;
}

// That a link or another panel leads to: its first lane at the top, once the panel has its height.
void TimelinePanel::ScrollToRank(const ui::Context& context, float height) {
  const bool is_settled = std::exchange(height_, height) == height;
  if (shown_ == context.lanes.shown) return;
  if (is_settled) shown_ = context.lanes.shown;
  for (const RankBlock& block : layout_.ranks) {
    if (block.rank == context.lanes.shown_rank) scroll_ = block.y;
  }
}

void TimelinePanel::Select(const ui::Context& context, const timeline::Hit& hit,
                           ui::Commands* commands) const {
  const bool add = ImGui::GetIO().KeyShift;
  const query::RankRows* rows = context.snapshot->FindRank(hit.rank);
  const timeline::RankIndex* rank = index_->Find(hit.rank);
  const bool one = hit.kind == timeline::Hit::Kind::kSpan && hit.count == 1 && rows != nullptr;
  if (one && hit.lane.rows == LaneRows::kWork) {
    commands->push_back(ui::SelectSpan{rows->gpu_work[hit.row].id, hit.rank});
  } else if (one && hit.lane.rows == LaneRows::kRanges) {
    commands->push_back(ui::SelectSpan{rows->spans[hit.row].id, hit.rank});
  } else if (one) {
    commands->push_back(ui::SelectOp{rows->op_runs[hit.row].id, hit.rank, add});
  } else if (hit.kind == timeline::Hit::Kind::kStall && rank != nullptr) {
    // What it waited for explains more than what waited.
    const analysis::Stall& stall = *rank->stalls[hit.stall];
    const query::OpRunId op =
        stall.blocking_op_run.is_none() ? stall.op_run : stall.blocking_op_run;
    commands->push_back(ui::SelectOp{op, hit.rank, add});
  } else if (!add && (!context.selection.op_run.is_none() || !context.selection.span.is_none() ||
                      context.area.query)) {
    commands->push_back(ui::SelectOp{query::OpRunId::None(), 0, false});
  }
}

void TimelinePanel::DrawScrollBar(const ui::Context& context, const ui::Box& box) const {
  const float height = box.y1 - box.y0;
  if (layout_.height <= height || context.headless) return;
  const float content = layout_.height + kBelowLanes * context.scale;
  const float y0 = box.y0 + height * scroll_ / content;
  const float y1 = box.y0 + height * (scroll_ + height) / content;
  ImGui::GetWindowDrawList()->AddRectFilled(
      {box.x1 + 2 * context.scale, y0}, {box.x1 + 5 * context.scale, y1},
      ui::WithAlpha(context.theme->ink.faint, 0.6F), 1.5F * context.scale);
}

}  // namespace shardscope::panels
