#include "ui/panels/timeline/header.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "trace/query/step_times.h"
#include "ui/context.h"
#include "ui/draw_log.h"
#include "ui/panels/timeline/beside_lanes.h"
#include "ui/panels/timeline/critical_path.h"
#include "ui/panels/timeline/flags.h"
#include "ui/panels/timeline/lens_bar.h"
#include "ui/panels/timeline/plan_lanes.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/draw/draw_lane.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/steps.h"
#include "ui/values.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/legend.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using widgets::Look;

constexpr float kLine = 18;
constexpr float kSwatchWidth = 22;  // wide enough to show a hatch
constexpr float kSwatchHeight = 11;
constexpr float kLeastLanes = 100;  // three lanes, which the legend leaves room for

struct Entry {
  ui::Text name;
  ui::Color color = 0;  // 0: a stall
  bool emulated = false;
};

bool HasTrack(const ui::Context& context, query::TrackRole role) {
  const query::Snapshot* snapshot = context.snapshot.get();
  return snapshot != nullptr && std::ranges::any_of(snapshot->tracks, [role](const auto& track) {
           return track.role == role;
         });
}

// The color of what the run sends most.
ui::Color Collectives(const ui::OpColors& colors, bool shards, bool reduces) {
  if (shards) return colors.all_gather;
  return reduces ? colors.all_reduce : colors.send_receive;
}

// Collectives are those that the run has a lane for; before it is known, FSDP's.
std::vector<Entry> Entries(const ui::Context& context) {
  const ui::OpColors& colors = context.theme->op;
  const bool reduces = HasTrack(context, query::TrackRole::kAllReduce) ||
                       HasTrack(context, query::TrackRole::kTensor);
  const bool exchanges = HasTrack(context, query::TrackRole::kSendActivation);
  const bool broadcasts = HasTrack(context, query::TrackRole::kBroadcast);
  // Of parts of the sequence, in the lane of tensor ranks.
  const bool has_parts = HasTrack(context, query::TrackRole::kTensor) &&
                         ui::ShownValue(context, "tensor.sequence_parallel") == "true";
  const bool shards = !(reduces || exchanges || broadcasts) || has_parts ||
                      HasTrack(context, query::TrackRole::kAllGather);
  std::vector<Entry> entries = {{ui::Text::kForward, colors.forward},
                                {ui::Text::kBackward, colors.backward}};
  const std::string checkpointing = ui::ShownValue(context, "checkpointing");
  if (!checkpointing.empty() && checkpointing != "none") {
    entries.push_back({ui::Text::kRecompute, colors.recompute});
  }
  if (shards) {
    entries.push_back({ui::Text::kAllGather, colors.all_gather});
    entries.push_back({ui::Text::kReduceScatter, colors.reduce_scatter});
  }
  if (reduces) entries.push_back({ui::Text::kAllReduce, colors.all_reduce});
  if (exchanges) entries.push_back({ui::Text::kSendReceive, colors.send_receive});
  if (broadcasts) {
    entries.push_back({ui::Text::kBroadcast, colors.send_receive});
    entries.push_back({ui::Text::kReduce, colors.all_reduce});
  }
  entries.push_back({ui::Text::kOptimizer, colors.optimizer});
  entries.push_back({ui::Text::kWait, colors.wait});
  entries.push_back({ui::Text::kStall});
  entries.push_back({ui::Text::kEmulated, Collectives(colors, shards, reduces), true});
  return entries;
}

void DrawEntry(const Look& look, const Entry& entry, const ui::Box& swatch) {
  if (entry.color == 0) {
    timeline::DrawStallBox(look, swatch, swatch.x0, false);
    return;
  }
  ImGui::GetWindowDrawList()->AddRectFilled({swatch.x0, swatch.y0}, {swatch.x1, swatch.y1},
                                            entry.color, look.Px(2));
  if (entry.emulated) timeline::DrawEmulatedHatch(look, swatch, swatch.x0);
}

// From the left top of `box` on; nothing where it has no room for a line. Returns the bottom.
float DrawTimelineLegend(const ui::Context& context, const ui::Box& box, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  if (box.y0 + look.Px(kLine) > box.y1) return box.y0;
  std::vector<widgets::LegendEntry> entries;
  for (const Entry& entry : Entries(context)) {
    const auto draw = [&look, entry](const ui::Box& swatch) { DrawEntry(look, entry, swatch); };
    entries.push_back({ui::Tr(ui::Language::kEnglish, entry.name),
                       ui::Tr(context.language, entry.name), nullptr, draw});
  }
  return widgets::DrawLegend(look, entries, box,
                             {.text = {look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim},
                              .swatch = {kSwatchWidth, kSwatchHeight},
                              .swatch_top = (kLine - kSwatchHeight) / 2,
                              .line = kLine,
                              .gap = 14},
                             log);
}

using timeline::Axis;
using timeline::Range;
using widgets::Look;

constexpr float kStepLabelWidth = 72;
constexpr float kTickLabelWidth = 90;

ui::Box ToBox(const Axis& axis, float y, float height) {
  return {axis.left(), y, axis.right(), y + height};
}

// Milliseconds from the start of one step, right of its number.
void DrawTicks(const ui::Context& context, const Axis& axis, const query::Step& step, float from_x,
               const ui::Box& box) {
  const Look look = widgets::LookOf(context);
  const int64_t tick_ns = timeline::TickStepNs(axis.ns_per_pixel(), look.Px(kTickLabelWidth));
  const int64_t first = std::max<int64_t>(1, (axis.range().start_ns - step.start_ns) / tick_ns);
  for (int64_t tick = first; step.start_ns + tick * tick_ns < step.end_ns; ++tick) {
    const float x = std::round(axis.X(step.start_ns + tick * tick_ns));
    const float room_end = std::min(axis.X(step.end_ns), box.x1);
    if (x > room_end - look.Px(kTickLabelWidth / 2)) break;
    if (x < from_x) continue;
    ImGui::GetWindowDrawList()->AddRectFilled({x, box.y1 - look.Px(4)}, {x + 1, box.y1},
                                              context.theme->ink.faint);
    widgets::DrawText(look, widgets::FaintOf(look), {x + look.Px(4), box.y0 + look.Px(4)},
                      timeline::TickLabel(tick * tick_ns, tick_ns));
  }
}

std::string UnfinishedLabel(const ui::Context& context, const timeline::StepSpan& step) {
  const bool live = context.snapshot->state == query::TraceState::kLive;
  return ui::TrFormat(context.language, live ? ui::Text::kStepRunning : ui::Text::kStepUnfinished,
                      step.step);
}

// Boundary, name and milliseconds of one step; of `names` the first that fits. `stride`: of the
// steps that have a name.
void DrawRulerStep(const ui::Context& context, const Axis& axis, const query::Step& step,
                   const std::vector<std::string>& names, int stride, const ui::Box& box,
                   ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const widgets::TextStyle style{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.dim};
  const float x = std::round(axis.X(step.start_ns));
  ImGui::GetWindowDrawList()->AddRectFilled({x, box.y0}, {x + 1, box.y1},
                                            context.theme->surface.line);
  // The name of a step whose start is left of the window stays visible at the edge.
  const float text_x = std::max(x, box.x0) + look.Px(6);
  const float end_x = stride == 1 ? std::min(axis.X(step.end_ns), box.x1) : box.x1;
  const auto name = std::find_if(names.begin(), names.end(), [&](const std::string& text) {
    return text_x + widgets::TextSize(look, style, text).x <= end_x;
  });
  if (name == names.end()) return;
  const ui::Box drawn = widgets::DrawText(look, style, {text_x, box.y0 + look.Px(4)}, *name);
  log->Int("step:" + std::to_string(step.step), *name, step.step, "step", drawn);
  if (stride == 1) DrawTicks(context, axis, step, drawn.x1 + look.Px(12), box);
}

// The step that has no bar yet: its frame, with its name where there is room.
void DrawUnfinishedBar(const ui::Context& context, const Axis& run_axis, const ui::Box& box,
                       ui::DrawLog* log) {
  const auto step = timeline::UnfinishedStep(context.snapshot->ranks.front());
  if (!step) return;
  const Look look = widgets::LookOf(context);
  const ui::Box bar{std::round(run_axis.X(step->start_ns)), box.y0 + look.Px(2),
                    std::min(run_axis.X(step->end_ns), box.x1), box.y1};
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({bar.x0, bar.y0}, {bar.x0 + 1, bar.y1}, look.theme.ink.dim);
  list->AddRectFilled({bar.x0, bar.y1 - 1}, {bar.x1, bar.y1}, look.theme.ink.faint);
  const std::string text = UnfinishedLabel(context, *step);
  const widgets::TextStyle style = widgets::FaintOf(look);
  const ImVec2 at(bar.x0 + look.Px(6), bar.y0 + look.Px(1));
  if (at.x + widgets::TextSize(look, style, text).x <= box.x1) {
    widgets::DrawText(look, style, at, text);
  }
  log->Int("minimap_step:" + std::to_string(step->step), text, step->step, "step", bar);
}

// A toggle of the ruler's gutter, over `box`; true when it was clicked.
bool Toggle(const ui::Context& context, const char* id, const ui::Box& box, ui::Text tip) {
  const ImVec2 start = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  const bool clicked = widgets::ClickArea(id, {box.x1 - box.x0, box.y1 - box.y0});
  if (!context.headless) {
    widgets::ItemTooltip(widgets::LookOf(context), ui::Tr(context.language, tip), "");
  }
  ImGui::SetCursorScreenPos(start);
  return clicked;
}

// Folds or unfolds all ranks.
void DrawFoldAll(const ui::Context& context, const ui::Box& gutter, ui::DrawLog* log,
                 ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const bool folded = ui::AllFolded(context);
  const widgets::TextStyle style{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.dim};
  const char* text = ui::Tr(context.language, ui::Text::kTimelineRanks);
  ui::Box drawn = widgets::DrawText(
      look, style, {gutter.x0 + look.Px(ui::kPanelPadding), gutter.y0 + look.Px(4)}, text);
  const float middle = (gutter.y0 + gutter.y1) / 2;
  widgets::DrawFoldMark(look, {drawn.x1 + look.Px(9), middle}, folded);
  drawn.x1 += look.Px(16);
  log->Int("fold_all", text, folded ? 1 : 0, "", drawn);
  const ui::Text tip = folded ? ui::Text::kTimelineUnfoldAll : ui::Text::kTimelineFoldAll;
  if (Toggle(context, "##fold_all", {drawn.x0, gutter.y0, drawn.x1, gutter.y1}, tip)) {
    commands->push_back(ui::FoldRanks{!folded});
  }
}

// Three colours that stand for all: shows or hides the legend.
void DrawLegendToggle(const ui::Context& context, const ui::Box& gutter, ui::DrawLog* log,
                      ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ui::OpColors& colors = look.theme.op;
  const float alpha = context.lanes.legend ? 1.0F : 0.45F;
  const float size = look.Px(7);
  const float top = std::round((gutter.y0 + gutter.y1 - size) / 2);
  float x = gutter.x1 - look.Px(8) - 3 * size - look.Px(4);
  const ui::Box box{x - look.Px(4), gutter.y0, gutter.x1 - look.Px(4), gutter.y1};
  for (const ui::Color color : {colors.backward, colors.all_gather, colors.reduce_scatter}) {
    ImGui::GetWindowDrawList()->AddRectFilled({x, top}, {x + size, top + size},
                                              ui::WithAlpha(color, alpha), look.Px(1));
    x += size + look.Px(2);
  }
  log->Int("legend", "", context.lanes.legend ? 1 : 0, "", box);
  if (Toggle(context, "##legend", box, ui::Text::kTimelineLegend)) {
    commands->push_back(ui::ShowLegend{!context.lanes.legend});
  }
}

// An outlined box with its name: shows or hides the critical path.
void DrawPathToggle(const ui::Context& context, const ui::Box& gutter, ui::DrawLog* log,
                    ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const bool on = context.critical_path.is_on;
  const ui::Color color = on ? look.theme.ink.text : look.theme.ink.dim;
  const float x = gutter.x0 + look.Px(ui::kGrid);
  const float y = gutter.y0 + look.Px(5);
  ImGui::GetWindowDrawList()->AddRect({x, y}, {x + look.Px(10), y + look.Px(8)}, color, 0,
                                      look.Px(on ? 2 : 1));
  const widgets::TextStyle style{on ? look.fonts.bold : look.fonts.text, ui::kSmallTextSize, color};
  const char* text = ui::Tr(context.language, ui::Text::kPathButton);
  const ui::Box drawn =
      widgets::DrawText(look, style, {x + look.Px(14), gutter.y0 + look.Px(2)}, text);
  const ui::Box box{x, gutter.y0, drawn.x1, gutter.y1};
  log->Int("show_critical_path", text, on ? 1 : 0, "", box);
  if (Toggle(context, "##critical_path", box, ui::Text::kPathButtonTip)) {
    commands->push_back(ui::ShowCriticalPath{!on});
  }
}

}  // namespace

void TimelineHeader::Draw(const ui::Context& context, const Axis& axis, ui::DrawLog* log,
                          ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const float top = ImGui::GetCursorScreenPos().y;
  const float minimap_bottom = top + look.Px(timeline::kMinimapHeight);
  DrawMinimap(context, axis, log, commands);
  DrawFollow(context, {ImGui::GetWindowPos().x, top, axis.left(), minimap_bottom}, log, commands);
  const float ruler_top = minimap_bottom + look.Px(4);
  const ui::Box ruler = ToBox(axis, ruler_top, look.Px(timeline::kRulerHeight));
  area_.HandleRuler(context, axis, ruler, commands);
  DrawRuler(context, axis, ruler, log);
  DrawAreaInRuler(context, axis, ruler, log);
  DrawFlags(context, axis, ruler, log, commands);
  const ui::Box gutter{ImGui::GetWindowPos().x, ruler.y0, ruler.x0, ruler.y1};
  DrawFoldAll(context, gutter, log, commands);
  DrawLegendToggle(context, gutter, log, commands);
  float bottom = ruler.y1;
  if (context.lanes.legend) {
    const float end = top + ImGui::GetContentRegionAvail().y - look.Px(kLeastLanes);
    bottom = DrawTimelineLegend(context, {ruler.x0, ruler.y1, ruler.x1, end}, log);
  }
  // In the first line under the ruler, which the legend has or its own parts.
  if (bottom > ruler.y1 || context.critical_path.is_on) {
    DrawPathToggle(context, {gutter.x0, ruler.y1, gutter.x1, ruler.y1 + look.Px(kLine)}, log,
                   commands);
  }
  if (context.critical_path.is_on) bottom = DrawPathLegend(context, axis, bottom, log);
  if (context.plan.is_on) bottom = DrawPlanSentence(context, axis, bottom, log);
  if (context.compare.under_lanes) bottom = DrawBesideSentence(context, axis, bottom, log);
  if (context.lens.is_on) bottom = DrawLensBar(context, axis, bottom, log, commands);
  ImGui::SetCursorScreenPos({ImGui::GetCursorScreenPos().x, bottom});
}

void TimelineHeader::DrawMinimap(const ui::Context& context, const Axis& axis, ui::DrawLog* log,
                                 ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ui::Theme& theme = *context.theme;
  const int32_t rank = context.snapshot->ranks.front().rank;
  const Range run{context.snapshot->start_ns, context.snapshot->end_ns};
  const Axis run_axis(run, axis.left(), axis.width());
  const bool stale =
      report_ != context.report || run_ != run || width_ != axis.width() || left_ != axis.left();
  if (stale && context.report != nullptr) {
    bars_ = timeline::MakeMinimap(context.report->steps, rank, run_axis);
  }
  if (context.report == nullptr) bars_.clear();
  report_ = context.report;
  run_ = run;
  width_ = axis.width();
  left_ = axis.left();

  const ui::Box box = ToBox(axis, ImGui::GetCursorScreenPos().y, look.Px(timeline::kMinimapHeight));
  ImDrawList* list = ImGui::GetWindowDrawList();
  const float bottom = box.y1 - look.Px(1);
  const float height = box.y1 - box.y0 - look.Px(3);
  for (const timeline::MinimapBar& bar : bars_) {
    const float x1 = std::max(bar.x0 + 1, bar.x1 - (bar.x1 - bar.x0 > 2.5F ? 1.0F : 0.0F));
    const float y = bottom - height * bar.height;
    const float split = y + height * bar.exposed;
    list->AddRectFilled({bar.x0, split}, {x1, bottom},
                        ui::Mix(theme.surface.panel, theme.op.forward, 0.85F));
    list->AddRectFilled({bar.x0, y}, {x1, split}, theme.op.exposed);
  }
  timeline::DrawPauses(context, run_axis, {rank, box, "minimap_pause"}, log);
  DrawUnfinishedBar(context, run_axis, box, log);
  hits_.Draw(context, run_axis, box, log);
  DrawAreaInMinimap(context, run_axis, box);
  const float x0 = std::clamp(run_axis.X(context.view.start_ns), box.x0, box.x1);
  const float x1 = std::clamp(run_axis.X(context.view.end_ns), box.x0, box.x1);
  const float middle = (x0 + x1) / 2;
  const float half = std::max((x1 - x0) / 2, look.Px(3));
  const ui::Box window{middle - half, box.y0, middle + half, box.y1};
  list->AddRectFilled({window.x0, window.y0}, {window.x1, window.y1},
                      ui::WithAlpha(theme.ink.text, 0.10F), look.Px(3));
  list->AddRect({window.x0, window.y0}, {window.x1, window.y1}, theme.ink.text, look.Px(3),
                look.Px(1.2F));
  log->Int("minimap", "", static_cast<int64_t>(bars_.size()), "", box);
  HandleMinimap(context, run_axis, commands);
}

void TimelineHeader::HandleMinimap(const ui::Context& context, const Axis& run_axis,
                                   ui::Commands* commands) {
  const ImVec2 start = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({run_axis.left(), start.y});
  ImGui::InvisibleButton("##minimap", {run_axis.width(), timeline::kMinimapHeight * context.scale});
  ImGui::SetCursorScreenPos(start);
  if (context.headless) return;
  const Range view{context.view.start_ns, context.view.end_ns};
  const float x = ImGui::GetIO().MousePos.x;
  if (ImGui::IsItemActivated()) {
    const int64_t at_ns = run_axis.Ns(x);
    const bool inside = at_ns >= view.start_ns && at_ns < view.end_ns;
    // A press beside the window centres it there first.
    grabbed_ns_ = inside ? at_ns - view.start_ns : view.length_ns() / 2;
    if (inside) return;
  } else if (!ImGui::IsItemActive() || ImGui::GetIO().MouseDelta.x == 0) {
    return;
  }
  const Range moved = timeline::DragMinimap(run_axis, view, x, grabbed_ns_);
  commands->push_back(ui::SetView{moved.start_ns, moved.end_ns, false, false});
}

void DrawRuler(const ui::Context& context, const Axis& axis, const ui::Box& box, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({ImGui::GetWindowPos().x, box.y0}, {box.x1, box.y1},
                      context.theme->surface.raised);
  const query::RankRows& rank = context.snapshot->ranks.front();
  timeline::DrawPauses(context, axis, {rank.rank, box, "ruler_pause"}, log);
  const query::TouchedSteps in_view =
      query::StepsThatTouch(rank, {axis.range().start_ns, axis.range().end_ns});
  const int stride = timeline::LabelStride(in_view.size(), axis.width(), look.Px(kStepLabelWidth));
  list->PushClipRect({box.x0, box.y0}, {box.x1, box.y1}, true);
  for (const query::Step& step : in_view) {
    if (step.step % stride != 0) continue;
    const std::string text = ui::TrFormat(context.language, ui::Text::kStepN, step.step);
    DrawRulerStep(context, axis, step, {text}, stride, box, log);
  }
  const std::optional<timeline::StepSpan> unfinished = timeline::UnfinishedStep(rank);
  const bool goes_on_in_view = unfinished && unfinished->start_ns < axis.range().end_ns &&
                               unfinished->end_ns > axis.range().start_ns;
  if (goes_on_in_view) {
    // There is nothing behind it that its name could run into, but it may have just begun.
    const int64_t end_ns = std::max(unfinished->end_ns, axis.range().end_ns);
    const std::vector<std::string> names = {
        UnfinishedLabel(context, *unfinished),
        ui::TrFormat(context.language, ui::Text::kStepN, unfinished->step),
        std::to_string(unfinished->step)};
    DrawRulerStep(context, axis, {rank.rank, unfinished->step, {}, unfinished->start_ns, end_ns},
                  names, 1, box, log);
  } else if (rank.steps.empty()) {
    // A recorded program has no steps: time since its recording began.
    query::Step whole;
    whole.start_ns = context.snapshot->start_ns;
    whole.end_ns = context.snapshot->end_ns;
    DrawTicks(context, axis, whole, box.x0, box);
  }
  list->PopClipRect();
}

void DrawFollow(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                ui::Commands* commands) {
  if (context.snapshot->state != query::TraceState::kLive) return;
  const Look look = widgets::LookOf(context);
  const ui::Theme& theme = *context.theme;
  const char* text = ui::Tr(context.language, context.view.held ? ui::Text::kTimelineFollowHeld
                                                                : ui::Text::kTimelineFollow);
  const bool on = context.view.follow;
  const float middle = std::round((box.y0 + box.y1) / 2);
  const float x = box.x0 + look.Px(ui::kPanelPadding);
  const ImVec2 centre(x + look.Px(4), middle);
  if (on) {
    ImGui::GetWindowDrawList()->AddCircleFilled(centre, look.Px(3.5F), theme.state.good);
  } else {
    ImGui::GetWindowDrawList()->AddCircle(centre, look.Px(3.5F), theme.ink.faint);
  }
  const widgets::TextStyle style = on ? widgets::TextOf(look) : widgets::DimOf(look);
  const ui::Box drawn =
      widgets::DrawText(look, style, {x + look.Px(13), middle - look.Px(7)}, text);
  log->Text("follow", text, drawn);
  const ImVec2 start = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos({x, box.y0});
  if (widgets::ClickArea("##follow", {drawn.x1 - x, box.y1 - box.y0})) {
    commands->push_back(ui::SetFollow{!on});
  }
  if (!context.headless) {
    widgets::ItemTooltip(look, ui::Tr(context.language, ui::Text::kTimelineFollowTip), "");
  }
  ImGui::SetCursorScreenPos(start);
}

}  // namespace shardscope::panels
