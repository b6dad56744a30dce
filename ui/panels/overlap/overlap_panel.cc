#include "ui/panels/overlap/overlap_panel.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "ui/panel_ids.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/scope_chip.h"
#include "ui/terms.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/timeline/labels.h"
#include "ui/values.h"
#include "ui/verdict.h"
#include "ui/widgets/bar_stack.h"
#include "ui/widgets/buttons.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/legend.h"
#include "ui/widgets/line_breaks.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using widgets::Look;

constexpr float kLegendHeight = 26;  // of one line
constexpr float kLegendLine = 17;
constexpr float kTextLine = 15;
constexpr float kVerdictGap = 9;
constexpr float kNoteGap = 8;
constexpr float kStallHeight = 20;
constexpr float kStallPitch = 23;
constexpr float kStallHeading = 24;
constexpr float kChipLine = 28;  // of the scope, where it has no room beside the heading
constexpr float kLeastChart = 70;
constexpr float kLowestChart = 40;  // rather than no stall in sight
constexpr float kMostChart = 150;
constexpr float kLeastBar = 4;       // pixels a bar
constexpr size_t kWantedStalls = 5;  // a low panel scrolls to them
constexpr size_t kMaxStalls = 8;

// The rank whose steps are shown: that of the selection, else that which a link or a cell led to,
// else the first.
int32_t ShownRank(const ui::Context& context) {
  const ui::Selection& selection = context.selection;
  if (!selection.op_run.is_none() || !selection.span.is_none()) return selection.rank;
  const int32_t shown = context.lanes.shown_rank;
  if (context.snapshot->FindRank(shown) != nullptr) return shown;
  return context.snapshot->ranks.front().rank;
}

// "14.0": milliseconds with three digits, as the unit stands in the column's heading.
std::string Milliseconds(double ns) {
  const double ms = ns / static_cast<double>(kNsPerMs);
  return fmt::format("{:.{}f}", ms, ms >= 99.95 ? 0 : ms >= 9.995 ? 1 : 2);
}

// What the chart shows.
std::vector<widgets::LegendEntry> LegendOfBars(const ui::Context& context, const Look& look,
                                               bool exposed_copy) {
  std::vector<widgets::LegendEntry> entries;
  const auto add = [&](ui::Term term, std::function<void(const ui::Box& place)> draw) {
    entries.push_back({ui::Tr(ui::Language::kEnglish, term.name),
                       ui::Tr(context.language, term.name), ui::Tr(context.language, term.tip),
                       std::move(draw)});
  };
  const auto add_swatch = [&](ui::Term term, ui::Color color) {
    add(term, [&look, color](const ui::Box& place) {
      widgets::DrawSwatch(look, {place.x0, place.y0 + look.Px(2)}, 9, color, false);
    });
  };
  const ui::OpColors& colors = look.theme.op;
  add_swatch(ui::kTermCompute, colors.forward);
  add_swatch(ui::kTermExposed, colors.exposed);
  if (exposed_copy) add_swatch(ui::kTermExposedCopy, colors.copy);
  add_swatch(ui::kTermIdle, colors.idle);
  add({ui::Text::kOverlapRatio, ui::Text::kTipOverlap}, [&look](const ui::Box& place) {
    const float y = place.y0 + look.Px(7);
    ImGui::GetWindowDrawList()->AddLine({place.x0, y}, {place.x0 + look.Px(10), y},
                                        look.theme.state.good, look.Px(1.5F));
  });
  return entries;
}

// Wrapped into as many lines as the width needs.
ui::Box BoxOfLegend(ImVec2 at, float width) {
  return {at.x, at.y, at.x + width, std::numeric_limits<float>::max()};
}

widgets::LegendStyle StyleOfLegend(const Look& look) {
  return {.text = widgets::FaintOf(look),
          .swatch_top = 0,
          .text_top = 0,
          .line = kLegendLine,
          .gap = 14};
}

float HeightOfLegend(const Look& look, std::span<const widgets::LegendEntry> legend,
                     const ui::Box& box) {
  const widgets::LegendPlaces places = widgets::PlaceLegend(look, legend, box, StyleOfLegend(look));
  return places.entries.back().y - box.y0 + look.Px(kLegendHeight);
}

// One row: cost as a bar behind title and cause.
void DrawStall(const ui::Context& context, const analysis::StallGroup& group, double dearest,
               const ui::Box& box, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const ui::Theme& theme = *context.theme;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const double share = dearest > 0 ? group.ns_per_step / dearest : 0;
  const float width = (box.x1 - box.x0) * static_cast<float>(std::clamp(share, 0.02, 1.0));
  list->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1}, theme.surface.raised, look.Px(3));
  list->AddRectFilled({box.x0, box.y0}, {box.x0 + width, box.y1},
                      ui::Mix(theme.surface.raised, theme.op.exposed, 0.22F), look.Px(3));
  const float y = box.y0 + look.Px(4);
  const std::string value = Milliseconds(group.ns_per_step);
  const ui::Box number =
      widgets::DrawTextRight(look, widgets::BoldOf(look), {box.x1 - look.Px(6), y - 1}, value);
  widgets::TextStyle title = widgets::MonoOf(look);
  title.color = theme.ink.text;
  const float title_room = (box.x1 - box.x0) * 0.42F;
  const ui::Box name =
      widgets::DrawTextClipped(look, title, {box.x0 + look.Px(6), y}, title_room, group.title);
  const widgets::TextStyle cause{look.fonts.text, ui::kSmallTextSize, theme.ink.dim};
  const float cause_x = name.x1 + look.Px(10);
  const std::string sentence = ui::StallSentence(context.language, group);
  widgets::DrawTextClipped(look, cause, {cause_x, y}, number.x0 - cause_x - look.Px(8), sentence);
  log->Real("stall:" + group.title + ":" + group.sentence, value, group.ns_per_step, "ns", box);
  log->Text("stall_cause:" + group.title, sentence, box);
}

// A text in as many lines as it takes; a word that is wider than they are is cut.
class Lines {
 public:
  Lines(const Look& look, const widgets::TextStyle& style, const std::string& text, float width,
        float gap)
      : look_(look), style_(style), width_(width), gap_(gap), text_(text) {
    const auto width_of = [&](std::string_view part) {
      return widgets::TextSize(look, style, part).x;
    };
    if (!text.empty()) lines_ = widgets::BreakLines(text, width, width_of);
  }

  // To one line, which is cut.
  void Clip() { lines_ = text_; }
  const std::string& text() const { return text_; }

  // With the gap below them; 0 without a text.
  float height() const {
    if (lines_.empty()) return 0;
    const auto breaks = std::count(lines_.begin(), lines_.end(), '\n');
    return look_.Px(kTextLine * static_cast<float>(breaks + 1) + gap_);
  }

  ui::Box Draw(ImVec2 at) const {
    ui::Box drawn{at.x, at.y, at.x, at.y};
    for (const std::string_view part : Split(lines_, '\n')) {
      const std::string_view words = part.substr(0, part.find_last_not_of(' ') + 1);
      const ui::Box box = widgets::DrawTextClipped(look_, style_, {at.x, drawn.y1}, width_, words);
      drawn.x1 = std::max(drawn.x1, box.x1);
      drawn.y1 += look_.Px(kTextLine);
    }
    return drawn;
  }

 private:
  const Look look_;
  const widgets::TextStyle style_;
  const float width_;
  const float gap_;
  const std::string text_;
  std::string lines_;  // with a '\n' where one ends
};

// What bounds these steps; all of it stands in the tooltip, too.
void DrawVerdict(const ui::Context& context, const Lines& lines, ImVec2 at, float width,
                 ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const std::string& line = lines.text();
  log->Text("verdict", line, lines.Draw(at));
  const ImVec2 cursor = ImGui::GetCursorScreenPos();
  ImGui::SetCursorScreenPos(at);
  if (widgets::ClickArea("##verdict", {width, lines.height()})) {
    commands->push_back(ui::FocusPanel{ui::panel_ids::kAdvice});
  }
  if (!context.headless) {
    std::string detail = ui::VerdictTry(context.language, context.figures->explanation.verdict);
    if (!detail.empty()) detail += "\n";
    detail += ui::Tr(context.language, ui::Text::kAdviceMore);
    widgets::ItemTooltip(look, line, detail);
  }
  ImGui::SetCursorScreenPos(cursor);
}

// Above the stalls: between the heading and the unit the scope has room only in a broad panel.
struct StallHeading {
  bool chip_is_beside = true;
  float height = 0;
};
StallHeading HeadingOfStalls(const ui::Context& context, float width) {
  const Look look = widgets::LookOf(context);
  const auto text_width = [&](const widgets::TextStyle& style, ui::Text text) {
    return widgets::TextSize(look, style, ui::Tr(context.language, text)).x;
  };
  const float needed = text_width(widgets::BoldOf(look), ui::Text::kOverlapTopStalls) +
                       ScopeChipWidth(context) + look.Px(18) +
                       text_width(widgets::FaintOf(look), ui::Text::kOverlapMsPerStep);
  const bool is_beside = needed <= width;
  return {is_beside, look.Px(is_beside ? kStallHeading : kStallHeading + kChipLine)};
}

void DrawStalls(const ui::Context& context, const Lines& note, const ui::Box& box, ui::DrawLog* log,
                ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  const ui::Box heading = widgets::DrawText(look, widgets::BoldOf(look), {box.x0, box.y0},
                                            ui::Tr(context.language, ui::Text::kOverlapTopStalls));
  widgets::DrawTextRight(look, widgets::FaintOf(look), {box.x1, box.y0 + look.Px(1)},
                         ui::Tr(context.language, ui::Text::kOverlapMsPerStep));
  // Of which steps the stalls are.
  const StallHeading shape = HeadingOfStalls(context, box.x1 - box.x0);
  const ImVec2 chip = shape.chip_is_beside ? ImVec2(heading.x1 + look.Px(10), box.y0 - look.Px(3))
                                           : ImVec2(box.x0, box.y0 + look.Px(kStallHeading - 3));
  DrawScopeChip(context, chip, log, commands);
  const std::vector<analysis::StallGroup>& stalls = context.figures->stalls;
  if (context.figures->scope.empty()) return;  // nothing was looked at: no stall would be a claim
  float y = box.y0 + shape.height - look.Px(4);
  if (!note.text().empty()) {
    const ui::Box drawn = note.Draw({box.x0, y});
    log->Text("stall_note", note.text(), drawn);
    widgets::BoxTooltip(look, drawn, note.text(), "");
    y += note.height();
  }
  if (stalls.empty()) {
    const char* text = ui::Tr(context.language, context.figures->summary.communicates
                                                    ? ui::Text::kOverlapNoStalls
                                                    : ui::Text::kOverlapNoCommunication);
    log->Text("no_stalls", text, widgets::DrawText(look, widgets::DimOf(look), {box.x0, y}, text));
    return;
  }
  for (size_t at = 0; at < std::min(stalls.size(), kMaxStalls); ++at) {
    if (at >= kWantedStalls && y + look.Px(kStallHeight) > box.y1) break;
    const ui::Box row{box.x0, y, box.x1, y + look.Px(kStallHeight)};
    DrawStall(context, stalls[at], stalls.front().ns_per_step, row, log);
    ImGui::SetCursorScreenPos({row.x0, row.y0});
    ImGui::PushID(static_cast<int>(at));
    const analysis::Stall& worst = stalls[at].worst;
    if (widgets::ClickArea("##stall", {row.x1 - row.x0, row.y1 - row.y0})) {
      const query::OpRunId op =
          worst.blocking_op_run.is_none() ? worst.op_run : worst.blocking_op_run;
      commands->push_back(ui::ShowOp{op, worst.rank});
    }
    if (!context.headless) {
      const std::string sentence = ui::StallSentence(context.language, stalls[at]);
      widgets::ItemTooltip(look, stalls[at].title, sentence);
    }
    ImGui::PopID();
    y += look.Px(kStallPitch);
  }
}

// Its steps come once all rows are there, and figures of them a while after.
bool IsStillRead(const query::Snapshot& snapshot) {
  return snapshot.is_behind || (!snapshot.ranks.empty() && !snapshot.ranks.front().steps.empty());
}

}  // namespace

void OverlapPanel::Draw(const ui::Context& context, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  if (context.snapshot == nullptr || context.snapshot->ranks.empty() || context.report == nullptr ||
      context.figures == nullptr || context.report->steps.empty()) {
    const ui::Text why = context.snapshot == nullptr      ? ui::Text::kOverlapEmpty
                         : ui::IsRecordedProgram(context) ? ui::Text::kOverlapRecorded
                         : IsStillRead(*context.snapshot) ? ui::Text::kOverlapStillRead
                                                          : ui::Text::kOverlapNoSteps;
    return PanelFrame{context, look, log, commands}.Empty(why);
  }
  const int32_t rank = ShownRank(context);
  ImVec2 top = ImGui::GetCursorScreenPos();
  ImVec2 room = ImGui::GetContentRegionAvail();
  const bool has_steps = !context.figures->scope.empty();
  const analysis::Explanation& explanation = context.figures->explanation;
  const Lines verdict(look, widgets::BoldOf(look),
                      has_steps ? ui::VerdictLine(context.language, explanation.verdict) : "",
                      room.x, kVerdictGap);
  Lines note(look, widgets::DimOf(look), ui::StallNote(context.language, explanation), room.x,
             kNoteGap);
  const float heading_height = HeadingOfStalls(context, room.x).height;
  UpdateBars(context, rank, std::max(static_cast<int>(room.x / look.Px(kLeastBar)), 2));
  const bool exposed_copy = std::any_of(
      bars_.begin(), bars_.end(), [](const OverlapBar& bar) { return bar.exposed_copy_ns > 0; });
  const std::vector<widgets::LegendEntry> legend = LegendOfBars(context, look, exposed_copy);
  const float legend_height = HeightOfLegend(look, legend, BoxOfLegend(top, room.x));
  const float needed = verdict.height() + legend_height + heading_height + note.height() +
                       look.Px(12 + kLowestChart + kStallPitch);
  if (needed > room.y && !context.figures->stalls.empty()) note.Clip();
  if (has_steps) DrawVerdict(context, verdict, top, room.x, log, commands);
  top.y += verdict.height();
  room.y -= verdict.height();
  const auto num_stalls =
      static_cast<float>(std::clamp<size_t>(context.figures->stalls.size(), 1, kWantedStalls));
  const float over_stalls = heading_height + note.height();
  const float stalls_height = over_stalls + look.Px(num_stalls * kStallPitch);
  const float rest = room.y - legend_height - look.Px(12);
  const float least = std::clamp(rest - over_stalls - look.Px(kStallPitch), look.Px(kLowestChart),
                                 look.Px(kLeastChart));
  const float chart_height = std::clamp(rest - stalls_height, least, look.Px(kMostChart));
  const ui::Box chart{top.x, top.y, top.x + room.x, top.y + chart_height};
  DrawCorner(context, rank, log);
  DrawChart(context, chart, log, commands);
  widgets::DrawLegend(look, legend, BoxOfLegend({chart.x0, chart.y1 + look.Px(8)}, room.x),
                      StyleOfLegend(look), log);
  const float stalls_top = chart.y1 + legend_height + look.Px(8);
  DrawStalls(context, note, {chart.x0, stalls_top, chart.x1, top.y + room.y}, log, commands);
}

// Whose steps these are, and how many a bar holds.
void OverlapPanel::DrawCorner(const ui::Context& context, int32_t rank, ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  int32_t most = 1;
  for (const OverlapBar& bar : bars_) most = std::max(most, bar.last_step - bar.first_step + 1);
  const std::string text =
      most == 1 ? ui::TrFormat(context.language, ui::Text::kRankN, rank)
                : ui::TrFormat(context.language, ui::Text::kOverlapStepsPerBar, rank, most);
  const ui::Box box = widgets::PanelCorner(look, text);
  log->Int("rank", text, rank, "", box);
  if (context.headless || !ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, box.y1}, false)) {
    return;
  }
  std::string tip = ui::Tr(context.language, ui::Text::kOverlapRankTip);
  if (most > 1) tip += std::string("\n") + ui::Tr(context.language, ui::Text::kOverlapMedianTip);
  widgets::Tooltip(look, text, tip, context.theme->surface.line);
}

void OverlapPanel::UpdateBars(const ui::Context& context, int32_t rank, int max_bars) {
  const int32_t change_step = context.change.valid ? context.change.step : -1;
  if (report_ == context.report && rank_ == rank && max_bars_ == max_bars &&
      change_step_ == change_step) {
    return;
  }
  report_ = context.report;
  rank_ = rank;
  max_bars_ = max_bars;
  change_step_ = change_step;
  bars_ = MakeBars(report_->steps, rank, max_bars, change_step);
  // One outlier must not flatten all others: bars above 1.3 times the 95th percentile are cut.
  std::vector<double> totals;
  for (const OverlapBar& bar : bars_) totals.push_back(bar.total_ns());
  tallest_ns_ = 0;
  for (const double total : totals) tallest_ns_ = std::max(tallest_ns_, total);
  tallest_ns_ = std::min(tallest_ns_, 1.3 * analysis::Percentile(totals, 0.95));
}

float OverlapPanel::BarX(const ui::Box& box, size_t bar) const {
  const auto count = static_cast<float>(std::max<size_t>(bars_.size(), 16));
  return std::round(box.x0 + (box.x1 - box.x0) * static_cast<float>(bar) / count);
}

void OverlapPanel::DrawChart(const ui::Context& context, const ui::Box& box, ui::DrawLog* log,
                             ui::Commands* commands) const {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const ui::Theme& theme = *context.theme;
  for (size_t at = 0; at < bars_.size(); ++at) {
    DrawBar(context, bars_[at], {BarX(box, at), box.y0, BarX(box, at + 1), box.y1}, log);
  }
  list->AddRectFilled({box.x0, box.y1}, {box.x1, box.y1 + 1}, theme.surface.line);
  DrawRatio(context, box);
  DrawChanges(context, box, log);
  HandleChart(context, box, commands);
}

// Between the bars of the step before and of the change, or within a bar that has both.
void OverlapPanel::DrawChanges(const ui::Context& context, const ui::Box& box,
                               ui::DrawLog* log) const {
  const Look look = widgets::LookOf(context);
  for (const timeline::Change& change : timeline::ChangesOf(*context.snapshot)) {
    const auto bar = std::find_if(bars_.begin(), bars_.end(), [&](const OverlapBar& one) {
      return change.step <= one.last_step;
    });
    if (bar == bars_.end() || change.step <= bars_.front().first_step) continue;
    const auto at = static_cast<size_t>(bar - bars_.begin());
    const float share = static_cast<float>(std::max(change.step - bar->first_step, 0)) /
                        static_cast<float>(bar->last_step - bar->first_step + 1);
    const float left = BarX(box, at);
    const float x = std::round(left + (BarX(box, at + 1) - left) * share) - look.Px(1);
    const float top = box.y0 - look.Px(4);
    timeline::DrawDashedVertical(look, x, top, box.y1, context.theme->state.pending);
    log->Int("change:" + std::to_string(change.step), "", change.step, "step",
             {x, top, x + look.Px(2), box.y1});
  }
}

void OverlapPanel::DrawBar(const ui::Context& context, const OverlapBar& bar, const ui::Box& box,
                           ui::DrawLog* log) const {
  if (tallest_ns_ <= 0) return;
  const ui::OpColors& colors = context.theme->op;
  widgets::DrawBarStack(box, tallest_ns_,
                        {{bar.compute_ns, colors.forward},
                         {bar.exposed_ns, colors.exposed},
                         {bar.exposed_copy_ns, colors.copy},
                         {bar.idle_ns, colors.idle}});
  if (!log->enabled() || bar.first_step != bar.last_step) return;
  const std::string id = std::to_string(bar.first_step);
  log->Real("compute:" + id, "", bar.compute_ns, "ns", box);
  log->Real("exposed:" + id, "", bar.exposed_ns, "ns", box);
  log->Real("idle:" + id, "", bar.idle_ns, "ns", box);
}

// From 0 at the bottom to 1 at the top of the chart.
void OverlapPanel::DrawRatio(const ui::Context& context, const ui::Box& box) const {
  std::vector<ImVec2> points;
  for (size_t at = 0; at < bars_.size(); ++at) {
    if (!bars_[at].has_communication) continue;
    const float x = (BarX(box, at) + BarX(box, at + 1)) / 2;
    const auto ratio = static_cast<float>(bars_[at].overlap_ratio);
    points.emplace_back(x, box.y1 - (box.y1 - box.y0) * ratio);
  }
  if (points.size() < 2) return;
  const Look look = widgets::LookOf(context);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddPolyline(points.data(), static_cast<int>(points.size()),
                    ui::WithAlpha(look.theme.surface.panel, 0.8F), look.Px(3.5F));
  list->AddPolyline(points.data(), static_cast<int>(points.size()), look.theme.state.good,
                    look.Px(1.5F));
}

void OverlapPanel::HandleChart(const ui::Context& context, const ui::Box& box,
                               ui::Commands* commands) const {
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  const bool clicked = ImGui::InvisibleButton("##chart", {box.x1 - box.x0, box.y1 - box.y0});
  if (context.headless || !ImGui::IsItemHovered()) return;
  const float x = ImGui::GetIO().MousePos.x;
  for (size_t at = 0; at < bars_.size(); ++at) {
    if (x < BarX(box, at) || x >= BarX(box, at + 1)) continue;
    const OverlapBar& bar = bars_[at];
    std::string title = ui::TrFormat(context.language, ui::Text::kStepN, bar.first_step);
    if (bar.last_step != bar.first_step) title += " - " + std::to_string(bar.last_step);
    title += "  " + ui::FormatDuration(bar.total_ns());
    const auto line = [&](ui::Text name, double ns) {
      return std::string(ui::Tr(context.language, name)) + "  " + ui::FormatDuration(ns);
    };
    std::string detail = line(ui::Text::kCompute, bar.compute_ns) + "\n" +
                         line(ui::Text::kExposed, bar.exposed_ns) + "\n";
    if (bar.exposed_copy_ns > 0) {
      detail += line(ui::Text::kOverlapExposedCopy, bar.exposed_copy_ns) + "\n";
    }
    detail += line(ui::Text::kIdle, bar.idle_ns) + "\n" +
              ui::Tr(context.language, ui::Text::kOverlapRatio) + "  " +
              FormatPercent(bar.overlap_ratio);
    widgets::Tooltip(widgets::LookOf(context), title, detail, context.theme->surface.line);
    if (!clicked) return;
    for (const analysis::StepBreakdown& step : report_->steps) {
      if (step.rank != rank_ || step.step != bar.first_step) continue;
      const timeline::Range fit = timeline::FitWithMargin({step.start_ns, step.end_ns});
      commands->push_back(ui::SetView{fit.start_ns, fit.end_ns, true, false});
    }
  }
}

ui::TableMaker OverlapPanel::AsTable(const ui::Context& context) const {
  if (context.figures == nullptr) return nullptr;
  return [figures = context.figures] {
    ui::Table table{{"stall", "cause", "sentence", "ns_per_step", "total_ns", "count", "worst_rank",
                     "worst_step"},
                    {}};
    for (const analysis::StallGroup& group : figures->stalls) {
      table.rows.push_back({group.title, std::string(Name(group.cause)), group.sentence,
                            ui::ExactText(group.ns_per_step), std::to_string(group.total_ns),
                            std::to_string(group.count), std::to_string(group.worst.rank),
                            std::to_string(group.worst.step)});
    }
    return table;
  };
}

}  // namespace shardscope::panels
