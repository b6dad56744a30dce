#include "ui/timeline/draw/decoration.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "ui/text.h"
#include "ui/timeline/geometry.h"
#include "ui/timeline/steps.h"
#include "ui/widgets/look.h"

namespace shardscope::timeline {
namespace {

using widgets::Look;

constexpr float kDash = 4;
constexpr float kDashGap = 3;
constexpr float kErrorWidth = 320;  // of the label of an error, which may be a long sentence

constexpr float kMinBand = 1;
constexpr float kPauseLabelPadding = 4;

// Of a label over a dashed line of that colour.
void DrawLabelFrame(const Look& look, const ui::Box& label, ui::Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({label.x0, label.y0}, {label.x1, label.y1}, look.theme.surface.panel,
                      look.Px(3));
  list->AddRect({label.x0, label.y0}, {label.x1, label.y1}, color, look.Px(3), look.Px(1));
}

}  // namespace

Axis WindowAxis(const ui::Context& context) {
  const float left = std::round(ImGui::GetWindowPos().x + kGutter * context.scale);
  const float right =
      std::round(ImGui::GetWindowPos().x + ImGui::GetWindowSize().x - kRightMargin * context.scale);
  return {{context.view.start_ns, context.view.end_ns}, left, right - left};
}

void DrawDashedVertical(const Look& look, float x, float y0, float y1, ui::Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  x = std::round(x);
  for (float y = y0; y < y1; y += look.Px(kDash + kDashGap)) {
    list->AddRectFilled({x, y}, {x + look.Px(1.5F), std::min(y + look.Px(kDash), y1)}, color);
  }
}

void DrawDashedHorizontal(const Look& look, float x0, float x1, float y, ui::Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  y = std::round(y);
  for (float x = x0; x < x1; x += look.Px(6 + 4)) {
    list->AddRectFilled({x, y}, {std::min(x + look.Px(6), x1), y + look.Px(1.2F)}, color);
  }
}

std::vector<ui::Box> DrawChanges(const ui::Context& context, const std::vector<Change>& changes,
                                 const Axis& axis, const ui::Box& box, float label_y,
                                 ui::DrawLog* log) {
  std::vector<ui::Box> labels;
  const Look look = widgets::LookOf(context);
  const ui::Theme& theme = *context.theme;
  float free_x = axis.left();  // labels never cover one another
  for (const Change& change : changes) {
    const float x = axis.X(change.time_ns);
    if (x < axis.left() || x > axis.right()) continue;
    DrawDashedVertical(look, x, box.y0, box.y1, theme.state.pending);
    if (label_y < 0 || x + look.Px(3) < free_x) continue;
    const std::string text = ChangeLabel(change.markers);
    const widgets::TextStyle style{look.fonts.bold, ui::kSmallTextSize, theme.state.pending_text};
    const ImVec2 size = widgets::TextSize(look, style, text);
    const float width = size.x + look.Px(12);
    const float left = std::min(std::round(x + look.Px(4)), axis.right() - width);
    const ui::Box label{left, label_y, left + width, label_y + look.Px(18)};
    DrawLabelFrame(look, label, theme.state.pending);
    widgets::DrawTextCentered(look, style, label, text);
    if (log != nullptr) {
      log->Int("change:" + std::to_string(change.step), text, change.step, "step", label);
    }
    free_x = label.x1;
    labels.push_back(label);
  }
  return labels;
}

void DrawErrors(const ui::Context& context, const std::vector<query::Marker>& errors,
                const Axis& axis, const ui::Box& box, float label_y, ui::DrawLog* log) {
  const Look look = widgets::LookOf(context);
  const widgets::TextStyle style{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.text};
  float free_x = axis.left();  // labels never cover one another
  for (const query::Marker& error : errors) {
    const float x = axis.X(error.time_ns);
    if (x < axis.left() || x > axis.right()) continue;
    DrawDashedVertical(look, x, box.y0, box.y1, look.theme.op.exposed);
    if (label_y < 0 || x < free_x) continue;
    const std::string text = ui::ErrorText(context.language, error.new_value);
    const float wanted = widgets::TextSize(look, style, text).x + look.Px(13);
    const float width = std::min({wanted, look.Px(kErrorWidth), axis.width()});
    const float left = std::min(std::round(x + look.Px(4)), axis.right() - width);
    const float top = label_y - look.Px(22);
    const ui::Box label{left, top, left + width, top + look.Px(18)};
    DrawLabelFrame(look, label, look.theme.op.exposed);
    widgets::DrawTextClipped(look, style, {label.x0 + look.Px(6), label.y0 + look.Px(2)},
                             width - look.Px(12), text);
    if (log != nullptr) {
      log->Int("error:" + std::to_string(error.step), text, error.time_ns, "ns", label);
    }
    free_x = label.x1;
  }
}

void DrawCursor(const ui::Context& context, const Axis& axis, float y0, float y1) {
  if (context.hover_ns < 0 || context.headless) return;
  const float x = axis.X(context.hover_ns);
  if (x < axis.left() || x > axis.right()) return;
  ImGui::GetWindowDrawList()->AddLine({std::round(x) + 0.5F, y0}, {std::round(x) + 0.5F, y1},
                                      ui::WithAlpha(context.theme->ink.text, 0.35F), 1);
}

ui::Color DimOfArea(const ui::Theme& theme) { return ui::WithAlpha(theme.surface.panel, 0.55F); }

void DrawArea(const ui::Context& context, const Axis& axis, float y0, float y1) {
  if (!context.area.query) return;
  const float x0 =
      std::clamp(std::round(axis.X(context.area.query->time.start_ns)), axis.left(), axis.right());
  const float x1 =
      std::clamp(std::round(axis.X(context.area.query->time.end_ns)), axis.left(), axis.right());
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({axis.left(), y0}, {x0, y1}, DimOfArea(*context.theme));
  list->AddRectFilled({x1, y0}, {axis.right(), y1}, DimOfArea(*context.theme));
  for (const float x : {x0, x1}) {
    if (x <= axis.left() || x >= axis.right()) continue;
    list->AddRectFilled({x, y0}, {x + 1, y1}, context.theme->state.accent);
  }
}

void DrawLens(const ui::Context& context, const Axis& axis, float y0, float y1) {
  if (!context.lens.is_on) return;
  const widgets::Look look = widgets::LookOf(context);
  const float x = std::round(axis.X(context.lens.now_ns));
  ImDrawList* list = ImGui::GetWindowDrawList();
  if (x < axis.right()) {
    list->AddRectFilled({std::max(x, axis.left()), y0}, {axis.right(), y1}, DimOfArea(look.theme));
  }
  if (x < axis.left() || x > axis.right()) return;
  list->AddRectFilled({x - look.Px(1), y0}, {x + look.Px(1), y1}, look.theme.state.accent);
}

void DrawStepLines(const ui::Context& context, const Axis& axis, float y0, float y1) {
  if (context.snapshot->ranks.empty()) return;
  const query::RowList<query::Step>& steps = context.snapshot->ranks.front().steps;
  auto step =
      std::lower_bound(steps.begin(), steps.end(), axis.range().start_ns,
                       [](const query::Step& row, int64_t time) { return row.start_ns < time; });
  float last_x = axis.left() - 1000;
  for (; step != steps.end() && step->start_ns <= axis.range().end_ns; ++step) {
    const float x = std::round(axis.X(step->start_ns));
    if (x - last_x < 24 * context.scale) continue;
    ImGui::GetWindowDrawList()->AddRectFilled({x, y0}, {x + 1, y1}, context.theme->surface.line);
    last_x = x;
  }
  const std::optional<StepSpan> unfinished = UnfinishedStep(context.snapshot->ranks.front());
  if (!unfinished) return;
  const float x = std::round(axis.X(unfinished->start_ns));
  if (x < axis.left() || x > axis.right()) return;
  ImGui::GetWindowDrawList()->AddRectFilled({x, y0}, {x + 1, y1}, context.theme->surface.line);
}

ui::Box DrawCallout(const Look& look, ImVec2 at, const ui::Box& bounds, const Callout& callout) {
  const widgets::TextStyle title{look.fonts.bold, ui::kSmallTextSize, look.theme.ink.text};
  const widgets::TextStyle detail{look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim};
  const ImVec2 title_size = widgets::TextSize(look, title, callout.title);
  const ImVec2 detail_size = widgets::TextSize(look, detail, callout.detail);
  const bool two = !callout.detail.empty();
  const float width = std::max(title_size.x, detail_size.x) + look.Px(two ? 20 : 16);
  const float height = two ? look.Px(42) : look.Px(18);
  const float x = std::round(std::clamp(at.x, bounds.x0, std::max(bounds.x0, bounds.x1 - width)));
  const float y = std::round(std::clamp(at.y, bounds.y0, std::max(bounds.y0, bounds.y1 - height)));
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRectFilled({x, y}, {x + width, y + height}, look.theme.surface.panel, look.Px(4));
  list->AddRect({x, y}, {x + width, y + height}, callout.border, look.Px(4), look.Px(1.2F));
  if (two) {
    widgets::DrawText(look, title, {x + look.Px(10), y + look.Px(6)}, callout.title);
    widgets::DrawText(look, detail, {x + look.Px(10), y + look.Px(23)}, callout.detail);
  } else {
    widgets::DrawTextCentered(look, title, {x, y, x + width, y + height}, callout.title);
  }
  return {x, y, x + width, y + height};
}

std::vector<PauseBox> PausesInView(const query::Snapshot& snapshot, const query::RankRows& rows,
                                   const Axis& axis, float min_width) {
  std::vector<PauseBox> boxes;
  const auto add = [&](const query::Pause& pause, bool is_open) {
    const PauseBox box{std::max(axis.X(pause.start_ns), axis.left()),
                       std::min(axis.X(pause.end_ns), axis.right()), pause, is_open};
    if (box.x1 - box.x0 >= min_width) boxes.push_back(box);
  };
  const Range& range = axis.range();
  const auto first = std::partition_point(
      rows.pauses.begin(), rows.pauses.end(),
      [&](const query::Pause& pause) { return pause.end_ns <= range.start_ns; });
  for (auto pause = first; pause != rows.pauses.end() && pause->start_ns < range.end_ns; ++pause) {
    add(*pause, false);
  }
  if (snapshot.paused && !rows.steps.empty()) {
    const query::Step& last = rows.steps.back();
    add({last.step + 1, query::PauseCause::kUser, last.end_ns, range.end_ns}, true);
  }
  return boxes;
}

const char* PauseName(ui::Language language, query::PauseCause cause) {
  switch (cause) {
    case query::PauseCause::kUser:
      return ui::Tr(language, ui::Text::kTimelinePaused);
    case query::PauseCause::kCheckpoint:
      return ui::Tr(language, ui::Text::kTimelinePausedCheckpoint);
    case query::PauseCause::kEvaluation:
      return ui::Tr(language, ui::Text::kTimelinePausedEvaluation);
    case query::PauseCause::kChange:
      break;
  }
  return ui::Tr(language, ui::Text::kTimelinePausedChange);
}

void DrawPauses(const ui::Context& context, const Axis& axis, const PauseStrip& strip,
                ui::DrawLog* log) {
  const query::RankRows* rows = context.snapshot->FindRank(strip.rank);
  if (rows == nullptr) return;
  const widgets::Look look = widgets::LookOf(context);
  const widgets::TextStyle style{look.fonts.bold, ui::kSmallTextSize, look.theme.state.quiet_text};
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (const PauseBox& pause : PausesInView(*context.snapshot, *rows, axis, kMinBand)) {
    const ui::Box band{pause.x0, strip.box.y0, pause.x1, strip.box.y1};
    list->AddRectFilled({band.x0, band.y0}, {band.x1, band.y1}, look.theme.state.quiet_fill);
    const char* name = PauseName(context.language, pause.pause.cause);
    const ImVec2 size = widgets::TextSize(look, style, name);
    const bool fits = size.x + look.Px(2 * kPauseLabelPadding) <= band.x1 - band.x0 &&
                      size.y <= band.y1 - band.y0;
    if (fits) widgets::DrawTextCentered(look, style, band, name);
    log->Int(fmt::format("{}:{}", strip.name, pause.pause.step), fits ? name : "",
             pause.pause.end_ns - pause.pause.start_ns, "ns", band);
  }
}

void DrawPausesOfRanks(const ui::Context& context, const Axis& axis, const Layout& layout,
                       float origin, ui::DrawLog* log) {
  for (const RankBlock& block : layout.ranks) {
    const float y = origin + block.y;
    const ui::Box box{axis.left(), y, axis.right(), y + block.height - 1};
    DrawPauses(context, axis, {block.rank, box, fmt::format("pause{}", block.rank)}, log);
  }
}

}  // namespace shardscope::timeline
