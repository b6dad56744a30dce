#include "ui/panels/steps/steps_chart.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "trace/query/rows.h"
#include "ui/panel_ids.h"
#include "ui/panels/steps/step_words.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/values.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::StepRow;
using ui::Text;
using widgets::Look;

constexpr float kLeastBar = 3;  // pixels at scale 1, with the gap behind it
constexpr float kMostBar = 26;
constexpr float kTimesShare = 0.58F;  // of the height
constexpr float kTitleHeight = 17;
constexpr float kAxisWidth = 58;
constexpr float kAxisHeight = 16;
constexpr float kLeastParts = 50;  // high
constexpr float kLeastBars = 40;   // wide
constexpr float kHatch = 4;

bool IsIncident(const query::Marker& event) {
  const auto kind = query::ParseMarkerKind(event.kind);
  return kind == query::MarkerKind::kError || kind == query::MarkerKind::kSkip;
}

void AddEvents(const StepRow& row, StepBar* bar) {
  for (const query::Marker& event : row.events) {
    bar->has_change = bar->has_change || query::IsKnobChange(event);
    bar->has_incident = bar->has_incident || IsIncident(event);
  }
}

// One axis of steps over both parts.
struct Chart {
  const ui::Context& context;
  const Look look;
  const std::vector<StepRow>& rows;
  std::vector<StepBar> bars;
  ui::Box times;
  ui::Box losses;
  float pitch = 0;  // pixels of a bar

  float X(size_t bar) const { return times.x0 + pitch * static_cast<float>(bar); }
};

// A gap across a bar that would be longer than the chart is high.
void DrawCut(const Chart& chart, const StepRow& row, const ui::Box& bar, ui::DrawLog* log) {
  const float size = chart.look.Px(3);
  const ui::Box gap{bar.x0, bar.y0 + size, bar.x1, bar.y0 + 2 * size};
  ImGui::GetWindowDrawList()->AddQuadFilled({gap.x0, gap.y1}, {gap.x1, gap.y0},
                                            {gap.x1, gap.y0 + size}, {gap.x0, gap.y1 + size},
                                            chart.look.theme.surface.panel);
  log->Int(fmt::format("cut:{}", row.step), ui::FormatDuration(row.step_ns), row.step_ns, "ns",
           gap);
}

void DrawTimes(const Chart& chart, ui::DrawLog* log) {
  const Look& look = chart.look;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const auto longest = static_cast<double>(std::max<int64_t>(LongestStep(chart.rows), 1));
  const float height = chart.times.y1 - chart.times.y0;
  const float gap = chart.pitch > look.Px(4) ? look.Px(1) : 0;
  for (size_t at = 0; at < chart.bars.size(); ++at) {
    const StepBar& bar = chart.bars[at];
    const StepRow& row = chart.rows[bar.slowest];
    const auto top_of = [&](double part_ns) {
      return chart.times.y1 - height * static_cast<float>(std::min(part_ns / longest, 1.0));
    };
    const float x0 = chart.X(at);
    const float x1 = std::max(x0 + chart.pitch - gap, x0 + 1);
    const float top = top_of(static_cast<double>(row.step_ns));
    const float exposed = top_of(bar.exposed_ns);
    list->AddRectFilled({x0, top}, {x1, chart.times.y1},
                        ui::WithAlpha(look.theme.ink.dim, row.is_warm_up ? 0.35F : 0.7F));
    list->AddRectFilled({x0, exposed}, {x1, chart.times.y1}, look.theme.op.exposed);
    const ui::Box hatched{x0, exposed, x1, chart.times.y1};
    if (chart.pitch > look.Px(6)) {
      widgets::DrawHatch(hatched, look.Px(kHatch), look.Px(1), look.theme.surface.panel);
    }
    log->Int(fmt::format("bar:{}", row.step), ui::FormatDuration(row.step_ns), row.step_ns, "ns",
             {x0, top, x1, chart.times.y1});
    if (static_cast<double>(row.step_ns) > longest) {
      DrawCut(chart, row, {x0, top, x1, chart.times.y1}, log);
    }
  }
}

void DrawLosses(const Chart& chart, ui::DrawLog* log) {
  const Look& look = chart.look;
  double least = std::numeric_limits<double>::infinity();
  double most = -std::numeric_limits<double>::infinity();
  for (const StepBar& bar : chart.bars) {
    if (!std::isfinite(bar.loss)) continue;
    least = std::min(least, bar.loss);
    most = std::max(most, bar.loss);
  }
  if (least > most) return;
  ImDrawList* list = ImGui::GetWindowDrawList();
  const double range = most > least ? most - least : 1;
  const float height = chart.losses.y1 - chart.losses.y0;
  std::optional<ImVec2> before;
  for (size_t at = 0; at < chart.bars.size(); ++at) {
    const double loss = chart.bars[at].loss;
    if (!std::isfinite(loss)) {
      before.reset();
      continue;
    }
    const ImVec2 point{chart.X(at) + chart.pitch / 2,
                       chart.losses.y1 - height * static_cast<float>((loss - least) / range)};
    if (before) list->AddLine(*before, point, look.theme.state.accent, look.Px(1.5F));
    if (chart.pitch > look.Px(6)) {
      list->AddCircleFilled(point, look.Px(2), look.theme.state.accent, 8);
    }
    before = point;
  }
  const widgets::TextStyle faint = widgets::FaintOf(look);
  const float right = chart.losses.x0 - look.Px(6);
  const std::string top = fmt::format("{:.3f}", most);
  log->Real("most_loss", top, most, "nats",
            widgets::DrawTextRight(look, faint, {right, chart.losses.y0 - look.Px(6)}, top));
  if (most == least || height < look.Px(24)) return;
  const std::string bottom = fmt::format("{:.3f}", least);
  log->Real("least_loss", bottom, least, "nats",
            widgets::DrawTextRight(look, faint, {right, chart.losses.y1 - look.Px(8)}, bottom));
}

// A cross, so that an incident is not told from a change by its colour alone.
ui::Box DrawIncident(const Look& look, ImVec2 at) {
  const float size = look.Px(3.5F);
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddCircleFilled(at, look.Px(6), ui::WithAlpha(look.theme.surface.panel, 0.8F), 16);
  const float width = look.Px(1.6F);
  list->AddLine({at.x - size, at.y - size}, {at.x + size, at.y + size}, look.theme.state.bad,
                width);
  list->AddLine({at.x - size, at.y + size}, {at.x + size, at.y - size}, look.theme.state.bad,
                width);
  return {at.x - size, at.y - size, at.x + size, at.y + size};
}

void DrawEvents(const Chart& chart, ui::DrawLog* log) {
  for (size_t at = 0; at < chart.bars.size(); ++at) {
    const StepBar& bar = chart.bars[at];
    if (!bar.has_change && !bar.has_incident) continue;
    const float x = std::round(chart.X(at));
    timeline::DrawDashedVertical(
        chart.look, x, chart.times.y0, chart.losses.y1,
        bar.has_incident ? chart.look.theme.state.bad : chart.look.theme.state.pending);
    if (!bar.has_incident) continue;
    const int32_t step = chart.rows[bar.slowest].step;
    log->Int(fmt::format("incident:{}", step), "", step, "step",
             DrawIncident(chart.look, {x, chart.times.y0}));
  }
}

void DrawLabels(const Chart& chart, const ui::Box& box, ui::DrawLog* log) {
  const Look& look = chart.look;
  const widgets::TextStyle faint = widgets::FaintOf(look);
  const auto tr = [&](Text text) { return ui::Tr(chart.context.language, text); };
  const ui::Box title =
      widgets::DrawText(look, widgets::BoldOf(look), {box.x0, box.y0}, tr(Text::kStepsChartTime));
  log->Text("chart", tr(Text::kStepsChartTime), title);
  const ui::Box swatch{title.x1 + look.Px(16), box.y0 + look.Px(3), title.x1 + look.Px(26),
                       box.y0 + look.Px(13)};
  ImGui::GetWindowDrawList()->AddRectFilled({swatch.x0, swatch.y0}, {swatch.x1, swatch.y1},
                                            look.theme.op.exposed);
  widgets::DrawHatch(swatch, look.Px(kHatch), look.Px(1), look.theme.surface.panel);
  widgets::DrawText(look, faint, {swatch.x1 + look.Px(6), box.y0}, tr(Text::kStepsChartExposed));
  const int64_t longest = LongestStep(chart.rows);
  const std::string top = ui::FormatDuration(longest);
  log->Int("longest", top, longest, "ns",
           widgets::DrawTextRight(look, faint,
                                  {chart.times.x0 - look.Px(6), chart.times.y0 - look.Px(2)}, top));
  widgets::DrawText(look, faint, {box.x0, chart.losses.y0 - look.Px(kTitleHeight)},
                    tr(Text::kStepsChartLoss));
  const std::string first = std::to_string(chart.rows.front().step);
  widgets::DrawText(look, faint, {chart.losses.x0, chart.losses.y1 + look.Px(2)}, first);
  const std::string last = std::to_string(chart.rows.back().step);
  widgets::DrawTextRight(look, faint, {chart.X(chart.bars.size()), chart.losses.y1 + look.Px(2)},
                         last);
}

// The bar from top to bottom; its box.
ui::Box Shade(const Chart& chart, size_t at) {
  const float x = chart.X(at);
  const ui::Box box{x, chart.times.y0, x + chart.pitch, chart.losses.y1};
  ImGui::GetWindowDrawList()->AddRectFilled({box.x0, box.y0}, {box.x1, box.y1},
                                            ui::WithAlpha(chart.look.theme.ink.text, 0.12F));
  return box;
}

// The bar of the step that the timeline shows, with a mark over its loss.
void DrawInView(const Chart& chart, int32_t step, ui::DrawLog* log) {
  const auto bar = std::ranges::find_if(chart.bars, [&](const StepBar& one) {
    return chart.rows[one.first].step <= step && step <= chart.rows[one.last].step;
  });
  if (bar == chart.bars.end()) return;
  const ui::Box box = Shade(chart, static_cast<size_t>(bar - chart.bars.begin()));
  const float x = (box.x0 + box.x1) / 2;
  const float size = chart.look.Px(4);
  const float tip = chart.losses.y0 - chart.look.Px(2);
  ImGui::GetWindowDrawList()->AddTriangleFilled({x - size, tip - size}, {x + size, tip - size},
                                                {x, tip}, chart.look.theme.ink.text);
  log->Int("in_view", "", step, "step", box);
}

void DrawHover(const Chart& chart, size_t at) {
  const Look& look = chart.look;
  const StepBar& bar = chart.bars[at];
  const StepRow& row = chart.rows[bar.slowest];
  Shade(chart, at);
  std::string detail =
      ui::TrFormat(chart.context.language, Text::kStepsBarTip, ui::FormatDuration(row.step_ns),
                   row.slowest_rank, ui::FormatDuration(row.exposed_ns), LossText(row.loss));
  for (size_t index = bar.first; index <= bar.last; ++index) {
    for (const query::Marker& event : chart.rows[index].events) {
      const std::string words = EventWords(chart.context.language, event);
      detail += '\n';
      if (query::IsKnobChange(event)) {
        detail += ui::TrFormat(chart.context.language, Text::kStepsTurned, words);
      } else {
        detail += IsIncident(event) ? "× " + words : words;
      }
    }
  }
  widgets::Tooltip(look, ui::TrFormat(chart.context.language, Text::kStepsBarTitle, row.step),
                   detail, look.theme.surface.line);
}

}  // namespace

std::vector<StepBar> MakeStepBars(const std::vector<StepRow>& rows, size_t most) {
  most = std::max<size_t>(most, 1);
  const size_t per_bar = std::max<size_t>((rows.size() + most - 1) / most, 1);
  std::vector<StepBar> bars;
  for (size_t at = 0; at < rows.size(); ++at) {
    if (at % per_bar == 0) {
      bars.push_back(
          {.first = at, .slowest = at, .loss = std::numeric_limits<double>::quiet_NaN()});
    }
    StepBar& bar = bars.back();
    bar.last = at;
    if (rows[at].step_ns > rows[bar.slowest].step_ns) bar.slowest = at;
    bar.exposed_ns = rows[bar.slowest].exposed_ns;
    if (!std::isnan(rows[at].loss)) bar.loss = rows[at].loss;
    AddEvents(rows[at], &bar);
  }
  return bars;
}

int64_t LongestStep(const std::vector<StepRow>& rows) {
  int64_t longest = 0;
  for (const bool warm_up : {false, true}) {
    for (const StepRow& row : rows) {
      if (row.is_warm_up == warm_up) longest = std::max(longest, row.step_ns);
    }
    if (longest > 0) break;
  }
  return longest;
}

ImVec2 LeastStepsChart(const widgets::Look& look) {
  return {look.Px(kAxisWidth + kLeastBars), look.Px(kTitleHeight + 4 + kLeastParts + kAxisHeight)};
}

void DrawStepsChart(const ui::Context& context, const std::vector<StepRow>& rows,
                    const ui::Box& box, ui::DrawLog* log, ui::Commands* commands) {
  const Look look = widgets::LookOf(context);
  Chart chart{context, look, rows, {}, {}, {}, 0};
  const float left = box.x0 + look.Px(kAxisWidth);
  const float top = box.y0 + look.Px(kTitleHeight + 4);
  const float bottom = box.y1 - look.Px(kAxisHeight);
  const float middle = top + (bottom - top) * kTimesShare;
  chart.times = {left, top, box.x1, middle};
  chart.losses = {left, middle + look.Px(kTitleHeight), box.x1, bottom};
  chart.bars = MakeStepBars(rows, static_cast<size_t>((box.x1 - left) / look.Px(kLeastBar)));
  chart.pitch =
      std::min((box.x1 - left) / static_cast<float>(chart.bars.size()), look.Px(kMostBar));
  DrawInView(chart, context.focus.step, log);
  DrawTimes(chart, log);
  DrawLosses(chart, log);
  DrawEvents(chart, log);
  DrawLabels(chart, box, log);
  ImGui::SetCursorScreenPos({left, top});
  const bool is_clicked = ImGui::InvisibleButton("##chart", {box.x1 - left, bottom - top});
  if (!ImGui::IsItemHovered() || context.headless) return;
  const float at = (ImGui::GetIO().MousePos.x - left) / chart.pitch;
  if (at < 0 || at >= static_cast<float>(chart.bars.size())) return;
  DrawHover(chart, static_cast<size_t>(at));
  if (!is_clicked) return;
  commands->push_back(ui::ShowStep{rows[chart.bars[static_cast<size_t>(at)].slowest].step});
  commands->push_back(ui::FocusPanel{ui::panel_ids::kTimeline});
}

}  // namespace shardscope::panels
