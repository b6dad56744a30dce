#include "ui/panels/ranks/draw_strip.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "trace/base/text.h"
#include "ui/ranks.h"
#include "ui/widgets/keys.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/legend.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using analysis::RankFigure;
using ui::Text;
using widgets::Look;

constexpr float kLeastStepLabel = 34;  // pixels between the numbers of steps
constexpr float kStripLegendTop = 5;   // over its first line
constexpr float kStripLegendLine = 17;
constexpr int kStripLegendParts = 16;  // of the scale of colours, each so wide
constexpr float kStripLegendPart = 8;
constexpr float kFaintest = 0.08F;  // of a value that is nothing: no colour is no value

ui::Color HueOf(const ui::Theme& theme, RankFigure figure) {
  switch (figure) {
    case RankFigure::kExposedShare:
      return theme.op.exposed;
    case RankFigure::kLateness:
      return theme.state.bad;
    case RankFigure::kStepTime:
      return theme.op.forward;
    case RankFigure::kMemory:
      break;
  }
  return theme.op.optimizer;
}

ui::Color ColorOf(const ui::Theme& theme, RankFigure figure, float share) {
  return ui::Mix(theme.surface.raised, HueOf(theme, figure), kFaintest + (1 - kFaintest) * share);
}

bool IsAmong(const std::set<int32_t>& ranks, const RanksFrame& frame, const StripRow& row) {
  return std::all_of(row.ranks.begin(), row.ranks.end(),
                     [&](size_t at) { return ranks.contains(frame.grid().ranks[at]); });
}

// ", no lanes", behind what the ranks are called; empty where their lanes stand in order.
std::string PlaceNote(const RanksFrame& frame, const StripRow& row) {
  if (IsAmong(frame.context.lanes.hidden_ranks, frame, row))
    return std::string(", ") + frame.Tr(Text::kRanksHidden);
  if (IsAmong(frame.context.lanes.pinned_ranks, frame, row))
    return std::string(", ") + frame.Tr(Text::kRanksPinned);
  return "";
}

// What marks a row whose lanes are hidden, in a row of any height: a ring that is crossed out.
ui::Box DrawHiddenSign(const RanksFrame& frame, ImVec2 centre) {
  const float radius = frame.look.Px(3.5F);
  const float half = radius * 0.7F;
  const ui::Color color = frame.look.theme.ink.text;
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddCircle(centre, radius, color, 12, frame.look.Px(1.2F));
  list->AddLine({centre.x - half, centre.y + half}, {centre.x + half, centre.y - half}, color,
                frame.look.Px(1.2F));
  return {centre.x - radius, centre.y - radius, centre.x + radius, centre.y + radius};
}

// Cells of one look that stand side by side are one rectangle.
void DrawCells(const RanksFrame& frame, const Strip& strip, RankFigure figure,
               const StripPlaces& places, size_t row) {
  constexpr int kShades = 32;
  const ui::Box box = places.RowBox(row);
  const float gap = places.row_height >= frame.look.Px(10) ? 1 : 0;
  const auto shade_of = [&](size_t column) {
    const StripCell& cell = strip.At(row, column);
    if (cell.is_empty) return -1;
    return static_cast<int>(std::lround(strip.ShareOf(double{cell.value}) * kShades));
  };
  ImDrawList* list = ImGui::GetWindowDrawList();
  for (size_t first = 0; first < strip.num_columns;) {
    const int shade = shade_of(first);
    size_t end = first + 1;
    while (end < strip.num_columns && shade_of(end) == shade) ++end;
    if (shade >= 0) {
      const ui::Color color =
          ColorOf(frame.look.theme, figure, static_cast<float>(shade) / kShades);
      list->AddRectFilled({places.X(first), box.y0}, {places.X(end), box.y1 - gap}, color);
    }
    first = end;
  }
}

// Where cells are wide enough; and each in the log.
void DrawCellTexts(const RanksFrame& frame, const Strip& strip, RankFigure figure,
                   const StripPlaces& places, size_t row) {
  const Look& look = frame.look;
  const bool has_room = places.column_width >= look.Px(kStripMostColumn) - 1 &&
                        places.row_height >= look.Px(kStripLeastLabelHeight + 2);
  if (!has_room && !frame.log->enabled()) return;
  const ui::Box box = places.RowBox(row);
  for (size_t column = 0; column < strip.num_columns; ++column) {
    const StripCell& cell = strip.At(row, column);
    if (cell.is_empty) continue;
    const ui::Box of_cell{places.X(column), box.y0, places.X(column + 1), box.y1};
    const std::string text = ui::FormatRankFigure(figure, double{cell.value});
    if (has_room) {
      widgets::TextStyle style = widgets::FaintOf(look);
      style.color =
          ui::InkOn(look.theme, ColorOf(look.theme, figure, strip.ShareOf(double{cell.value})));
      widgets::DrawTextCentered(look, style, of_cell, text);
    }
    if (strip.rows[row].ranks.size() > 1 || strip.steps_a_column > 1) continue;
    frame.log->Real(fmt::format("cell:{}:{}", cell.rank, cell.step), text, double{cell.value},
                    ui::UnitOf(figure), of_cell);
  }
}

void DrawRowTexts(const RanksFrame& frame, const Strip& strip, RankFigure figure,
                  const StripPlaces& places, size_t at, bool has_room) {
  const Look& look = frame.look;
  const StripRow& row = strip.rows[at];
  const ui::Box box = places.RowBox(at);
  const float middle = (box.y0 + box.y1) / 2;
  if (row.is_slow) DrawSlowSign(frame, {box.x0 + look.Px(7), middle});
  const bool is_hidden = IsAmong(frame.context.lanes.hidden_ranks, frame, row);
  const std::string value = row.value ? ui::FormatRankFigure(figure, *row.value) : "";
  const std::string name = row.ranks.size() == 1
                               ? frame.Format(Text::kRankN, row.label)
                               : frame.Format(Text::kRanksGroupOf, row.ranks.size());
  const std::string label = name + PlaceNote(frame, row);
  if (is_hidden) {
    frame.log->Text(fmt::format("hidden:{}", row.label), label,
                    DrawHiddenSign(frame, {box.x0 + look.Px(kStripLabelWidth - 6), middle}));
  }
  if (has_room || row.is_slow) {
    widgets::TextStyle style{look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim};
    if (row.is_slow) style = {look.fonts.bold, ui::kSmallTextSize, look.theme.ink.text};
    if (is_hidden) style.color = look.theme.ink.dim;
    // Text may be higher than a row; that of the first one stays below the edge.
    const float y = std::max(middle - look.Px(ui::kSmallTextSize + 2) / 2, places.origin.y);
    // The sign stands for the words, which a low strip has no room for.
    widgets::DrawTextClipped(look, style, {box.x0 + look.Px(16), y},
                             look.Px(kStripLabelWidth - (is_hidden ? 30 : 20)),
                             is_hidden ? name : label);
    widgets::DrawTextRight(look, style, {box.x1 + look.Px(kStripValueWidth - 6), y}, value);
  }
  const ui::Box whole{box.x0, box.y0, box.x1 + look.Px(kStripValueWidth), box.y1};
  frame.log->Text(fmt::format("row:{}", row.label), label, whole);
  if (row.value) {
    frame.log->Real(fmt::format("value:{}", row.label), value, *row.value, ui::UnitOf(figure),
                    whole);
  }
}

std::string CellTip(const RanksFrame& frame, const StripCell& of_strip) {
  const analysis::RankGrid& grid = frame.grid();
  const auto index = [](const std::vector<int32_t>& numbers, int32_t number) {
    return static_cast<size_t>(std::lower_bound(numbers.begin(), numbers.end(), number) -
                               numbers.begin());
  };
  const analysis::RankCell& cell =
      grid.At(index(grid.ranks, of_strip.rank), index(grid.steps, of_strip.step));
  const auto text = [&cell](RankFigure figure) {
    const std::optional<double> value = ValueOf(cell, figure);
    return value ? ui::FormatRankFigure(figure, *value) : std::string("-");
  };
  return frame.Format(Text::kRanksCellTip, text(RankFigure::kExposedShare),
                      text(RankFigure::kLateness), text(RankFigure::kStepTime),
                      text(RankFigure::kMemory));
}

void HandleLabel(const RanksFrame& frame, const StripRow& row, ImVec2 beside, bool clicked) {
  if (clicked) {
    std::vector<int32_t> ranks;
    for (const size_t at : row.ranks) ranks.push_back(frame.grid().ranks[at]);
    const bool hides = ImGui::GetIO().KeyShift;
    const std::set<int32_t>& now =
        hides ? frame.context.lanes.hidden_ranks : frame.context.lanes.pinned_ranks;
    const ui::RankPlace place = IsAmong(now, frame, row) ? ui::RankPlace::kInOrder
                                : hides                  ? ui::RankPlace::kHidden
                                                         : ui::RankPlace::kPinned;
    frame.commands->push_back(ui::PlaceRanks{std::move(ranks), place});
  }
  const std::string title =
      frame.Format(Text::kRankN, Shortened(row.label, 60)) + PlaceNote(frame, row);
  const bool is_hidden = IsAmong(frame.context.lanes.hidden_ranks, frame, row);
  const ui::Box tip =
      widgets::TooltipAt(frame.look, beside, title,
                         frame.Tr(is_hidden ? Text::kRanksHiddenTip : Text::kRanksGutterTip),
                         frame.look.theme.surface.line);
  frame.log->Text("tooltip", title, tip);
}

// Where knobs were turned: a mark that points down to the column, under the numbers of steps.
void DrawStripChanges(const RanksFrame& frame, const Strip& strip, const StripPlaces& places,
                      float bottom) {
  const std::vector<int32_t>& steps = frame.grid().steps;
  for (const query::Marker& marker : frame.context.snapshot->markers) {
    if (!query::IsKnobChange(marker)) continue;
    const auto step = std::lower_bound(steps.begin(), steps.end(), marker.step);
    if (step == steps.end()) continue;
    const auto at = static_cast<size_t>(step - steps.begin());
    const float x = places.X(at / strip.steps_a_column);
    const float size = frame.look.Px(4);
    const ui::Box box{x - size, bottom - size, x + size, bottom};
    ImGui::GetWindowDrawList()->AddTriangleFilled({box.x0, box.y0}, {box.x1, box.y0}, {x, box.y1},
                                                  frame.look.theme.state.pending);
    frame.log->Int(fmt::format("change:{}", marker.step), marker.key, marker.step, "step", box);
  }
}

struct LegendTexts {
  std::string name;
  std::string low;
  std::string high;
  std::string slow;
  std::string steps;  // may be empty
};

LegendTexts LegendTextsOf(const RanksFrame& frame, const Strip& strip, RankFigure figure) {
  LegendTexts texts;
  texts.name = ui::RankFigureName(frame.context.language, figure);
  texts.low = ui::FormatRankFigure(figure, strip.low);
  texts.high = (strip.largest > strip.high ? "\xE2\x89\xA5 " : "") +
               ui::FormatRankFigure(figure, strip.high);
  texts.slow = frame.Tr(Text::kRanksSlowSign);
  if (strip.steps_a_column > 1) {
    texts.steps = frame.Format(Text::kRanksStepsAColumn, strip.steps_a_column);
  }
  return texts;
}

// The scale of colours, the sign of slow ranks, and how many steps a column has.
widgets::LegendPlaces PlaceStripLegend(const Look& look, const LegendTexts& texts, ImVec2 at) {
  const auto width = [&](const std::string& text) {
    return widgets::TextSize(look, widgets::FaintOf(look), text).x;
  };
  std::vector<float> widths = {width(texts.name) + width(texts.low) + width(texts.high) +
                                   look.Px(10 + 6 + kStripLegendParts * kStripLegendPart + 6),
                               look.Px(13) + width(texts.slow) + look.Px(4)};
  if (!texts.steps.empty()) widths.push_back(width(texts.steps));
  const ui::Box box{at.x, at.y, at.x + widgets::ContentWidth(),
                    at.y + 4 * look.Px(kStripLegendLine)};  // no entry lacks room
  return widgets::PlaceLegend(look, widths, box, look.Px(kStripLegendLine), look.Px(16));
}

}  // namespace

void DrawSlowSign(const RanksFrame& frame, ImVec2 centre) {
  const float size = frame.look.Px(4);
  ImGui::GetWindowDrawList()->AddTriangleFilled(
      {centre.x, centre.y - size}, {centre.x + size, centre.y + size * 0.8F},
      {centre.x - size, centre.y + size * 0.8F}, frame.look.theme.state.bad);
}

void DrawStripRow(const RanksFrame& frame, const Strip& strip, analysis::RankFigure figure,
                  const StripPlaces& places, size_t row, bool labelled) {
  DrawCells(frame, strip, figure, places, row);
  DrawCellTexts(frame, strip, figure, places, row);
  DrawRowTexts(frame, strip, figure, places, row, labelled);
}

void DrawStripSteps(const RanksFrame& frame, const Strip& strip, const StripPlaces& places,
                    float y) {
  const Look& look = frame.look;
  float next = places.left;
  const std::vector<int32_t>& steps = frame.grid().steps;
  for (size_t column = 0; column < strip.num_columns; ++column) {
    const float x = places.X(column);
    if (x < next || x + look.Px(kLeastStepLabel) / 2 > places.right) continue;
    next = x + look.Px(kLeastStepLabel);
    const int32_t step = steps[column * strip.steps_a_column];
    const std::string number = std::to_string(step);
    frame.log->Int("step:" + number, number, step, "step",
                   widgets::DrawText(look, widgets::FaintOf(look), {x + look.Px(1), y}, number));
  }
  DrawStripChanges(frame, strip, places, y + look.Px(kStripHeaderHeight));
}

void HandleStripValues(const RanksFrame& frame, RankFigure figure, const ui::Box& box) {
  int32_t num_steps = 0;
  for (const analysis::RankFigures& rank : frame.context.ranks->findings.ranks) {
    num_steps = std::max(num_steps, rank.num_steps);
  }
  const std::string what = frame.Format(Text::kRanksOfAll, num_steps);
  frame.log->Int("values_of", what, num_steps, "", box);
  const bool is_over = ImGui::IsWindowHovered(ImGuiHoveredFlags_ChildWindows) &&
                       ImGui::IsMouseHoveringRect({box.x0, box.y0}, {box.x1, box.y1});
  if (frame.context.headless || !is_over) return;
  const char* title = ui::RankFigureName(frame.context.language, figure);
  frame.log->Text("tooltip", fmt::format("{}\n{}", title, what),
                  widgets::Tooltip(frame.look, title, what, frame.look.theme.surface.line));
}

float StripLegendHeight(const RanksFrame& frame, const Strip& strip, RankFigure figure) {
  return frame.look.Px(kStripLegendTop) +
         PlaceStripLegend(frame.look, LegendTextsOf(frame, strip, figure), {0, 0}).bottom;
}

void DrawStripLegend(const RanksFrame& frame, const Strip& strip, RankFigure figure) {
  const Look& look = frame.look;
  const widgets::TextStyle style = widgets::FaintOf(look);
  const LegendTexts texts = LegendTextsOf(frame, strip, figure);
  const ImVec2 top = ImGui::GetCursorScreenPos();
  const widgets::LegendPlaces places =
      PlaceStripLegend(look, texts, {top.x, top.y + look.Px(kStripLegendTop)});
  ImVec2 at = places.entries[0];
  const ui::Box name = widgets::DrawText(look, style, at, texts.name);
  const ui::Box low = widgets::DrawText(look, style, {name.x1 + look.Px(10), at.y}, texts.low);
  float x = low.x1 + look.Px(6);
  for (int part = 0; part < kStripLegendParts; ++part, x += look.Px(kStripLegendPart)) {
    ImGui::GetWindowDrawList()->AddRectFilled(
        {x, at.y + look.Px(2)}, {x + look.Px(kStripLegendPart), at.y + look.Px(11)},
        ColorOf(look.theme, figure, static_cast<float>(part) / (kStripLegendParts - 1)));
  }
  const ui::Box high = widgets::DrawText(look, style, {x + look.Px(6), at.y}, texts.high);
  frame.log->Real("legend:low", texts.low, strip.low, ui::UnitOf(figure), low);
  frame.log->Real("legend:high", texts.high, strip.high, ui::UnitOf(figure), high);
  at = places.entries[1];
  DrawSlowSign(frame, {at.x + look.Px(4), at.y + look.Px(7)});
  frame.log->Text("legend:slow", texts.slow,
                  widgets::DrawText(look, style, {at.x + look.Px(13), at.y}, texts.slow));
  if (!texts.steps.empty()) widgets::DrawText(look, style, places.entries[2], texts.steps);
  ImGui::Dummy({widgets::ContentWidth(), places.bottom - top.y});
}

std::optional<StripPlace> PlaceUnderMouse(const Strip& strip, const StripPlaces& places) {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  const float row = (mouse.y - places.origin.y) / places.row_height;
  if (row < 0 || static_cast<size_t>(row) >= strip.rows.size()) return std::nullopt;
  StripPlace place{static_cast<size_t>(row), std::nullopt};
  if (mouse.x < places.left) return place;
  if (mouse.x >= places.right || strip.num_columns == 0) return std::nullopt;
  place.column = std::min(static_cast<size_t>((mouse.x - places.left) / places.column_width),
                          strip.num_columns - 1);
  return place;
}

StripPlace MovedByKeys(const Strip& strip, StripPlace place) {
  const auto moved = [](ImGuiKey back, ImGuiKey on, size_t at, size_t count) {
    const int by = widgets::TakeArrows(back, on);
    if (by < 0 && at > 0) --at;
    if (by > 0) ++at;
    return std::min(at, count - 1);
  };
  place.row = moved(ImGuiKey_UpArrow, ImGuiKey_DownArrow, place.row, strip.rows.size());
  // The label is left of the first column.
  const size_t at = place.column ? *place.column + 1 : 0;
  const size_t now = moved(ImGuiKey_LeftArrow, ImGuiKey_RightArrow, at, strip.num_columns + 1);
  place.column = now == 0 ? std::nullopt : std::optional(now - 1);
  return place;
}

void HandleStripPlace(const RanksFrame& frame, const Strip& strip, const StripPlaces& places,
                      const StripPlace& place, ImVec2 at, bool clicked) {
  const ui::Box row = places.RowBox(place.row);
  const auto outline = [&](float x0, float x1) {
    ImGui::GetWindowDrawList()->AddRect({x0, row.y0}, {x1, row.y1}, frame.look.theme.ink.text);
  };
  if (!place.column) {
    if (ImGui::GetIO().NavVisible) outline(row.x0, places.left);
    return HandleLabel(frame, strip.rows[place.row], at, clicked);
  }
  outline(places.X(*place.column), places.X(*place.column + 1));
  const StripCell& cell = strip.At(place.row, *place.column);
  if (cell.is_empty) return;
  const std::string title = frame.Format(Text::kRanksRankStep, cell.rank, cell.step) +
                            PlaceNote(frame, strip.rows[place.row]);
  const ui::Box tip = widgets::TooltipAt(frame.look, at, title, CellTip(frame, cell),
                                         frame.look.theme.surface.line);
  frame.log->Text("tooltip", title, tip);
  if (clicked) frame.commands->push_back(ui::ShowRank{cell.rank, cell.step});
}

}  // namespace shardscope::panels
