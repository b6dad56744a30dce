#include "ui/panels/sql/sql_chart.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <tuple>
#include <utility>

#include "trace/base/text.h"
#include "ui/panels/panel_frame.h"
#include "ui/panels/sql/row_target.h"
#include "ui/text.h"
#include "ui/widgets/labels.h"
#include "ui/widgets/legend.h"
#include "ui/widgets/look.h"
#include "ui/widgets/tooltip.h"

namespace shardscope::panels {
namespace {

using ui::Text;

constexpr float kSqlAxisWidth = 74;  // pixels at scale 1
constexpr float kSqlAxisHeight = 18;
constexpr float kSqlLegendHeight = 20;
constexpr float kPartGap = 10;
constexpr float kLeastPart = 24;
constexpr float kTickRoom = 110;  // of one beside another
constexpr float kTickLine = 32;   // of one over another
constexpr float kRoomOfDot = 8;
constexpr double kRoomAbove = 0.05;  // of the range
constexpr size_t kMostTipColumns = 16;
constexpr size_t kMostTipText = 60;  // characters

// None of NULL, of text, and of what has no place on an axis.
std::optional<double> FiniteNumber(const query::Cell& cell) {
  if (const auto* whole = std::get_if<int64_t>(&cell)) return static_cast<double>(*whole);
  const auto* real = std::get_if<double>(&cell);
  return real != nullptr && std::isfinite(*real) ? std::optional(*real) : std::nullopt;
}

bool HasNumbersOnly(const query::SelectedRows& rows, size_t column) {
  bool has_number = false;
  for (const std::vector<query::Cell>& row : rows.rows) {
    if (std::holds_alternative<std::string>(row[column])) return false;
    has_number = has_number || FiniteNumber(row[column]).has_value();
  }
  return has_number;
}

void IncludeValue(double value, std::optional<ChartRange>* range) {
  if (!*range) *range = ChartRange{value, value};
  (*range)->low = std::min((*range)->low, value);
  (*range)->high = std::max((*range)->high, value);
}

// Where each row is on the axis; none: nowhere.
std::vector<std::optional<double>> PlacesOnAxis(const query::SelectedRows& rows,
                                                const ChartColumns& columns) {
  std::vector<std::optional<double>> places;
  places.reserve(rows.rows.size());
  for (size_t row = 0; row < rows.rows.size(); ++row) {
    places.push_back(columns.x ? FiniteNumber(rows.rows[row][*columns.x])
                               : std::optional(static_cast<double>(row + 1)));
  }
  return places;
}

void AddRow(size_t row, double value, std::optional<ChartPoint>* point) {
  if (!*point) *point = ChartPoint{0, value, value, value, value, row, row};
  ChartPoint& at = **point;
  at.last = value;
  if (value < at.low) std::tie(at.low, at.low_row) = std::pair(value, row);
  if (value > at.high) std::tie(at.high, at.high_row) = std::pair(value, row);
}

// With room above, and from 0 where that costs less than half of the height.
ChartRange WithRoom(ChartRange range) {
  if (range.low > 0 && range.low < range.high / 2) range.low = 0;
  const double room = (range.high - range.low) * kRoomAbove;
  if (std::isfinite(range.high + room)) range.high += room;
  return range;
}

ui::Color ColorOfSeries(const ui::Theme& theme, size_t at) {
  const std::array<ui::Color, kMostChartSeries> colors = {
      theme.op.forward,   theme.op.all_gather,   theme.op.reduce_scatter,
      theme.op.optimizer, theme.op.send_receive, theme.op.exposed};
  return colors[at];
}

// Of the part of a unit, that is the whole width and its share of the height.
ui::Box ChartPart(const widgets::Look& look, const ui::Box& box, size_t at, size_t count) {
  const float gap = look.Px(kPartGap);
  const float height = (box.y1 - box.y0 + gap) / static_cast<float>(count);
  const float top = box.y0 + height * static_cast<float>(at);
  return {box.x0, top, box.x1, top + height - gap};
}

float YOf(const ui::Box& part, const ChartRange& range, double value) {
  return part.y1 - (part.y1 - part.y0) * static_cast<float>(range.Share(value));
}

void DrawPartAxis(const widgets::Look& look, const ui::Box& part, ChartUnit unit,
                  const ChartRange& range) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  list->AddRect({part.x0, part.y0}, {part.x1, part.y1}, look.theme.surface.line);
  const int most = std::max(static_cast<int>((part.y1 - part.y0) / look.Px(kTickLine)), 1);
  const ChartTicks ticks = TicksOf(range, most);
  for (const double value : ticks.values) {
    const float y = YOf(part, range, value);
    list->AddLine({part.x0, y}, {part.x1, y}, ui::WithAlpha(look.theme.surface.line, 0.6F));
    widgets::DrawTextRight(look, widgets::FaintOf(look), {part.x0 - look.Px(6), y - look.Px(6)},
                           TickText(unit, value, ticks.step));
  }
}

void DrawRowAxis(const widgets::Look& look, const ui::Box& box, const ChartRange& range,
                 std::string_view name) {
  const widgets::TextStyle faint = widgets::FaintOf(look);
  const float top = box.y1 + look.Px(3);
  const float left = box.x0 - look.Px(kSqlAxisWidth);
  widgets::DrawTextClipped(look, faint, {left, top}, look.Px(kSqlAxisWidth - 30), name);
  const int most = std::max(static_cast<int>((box.x1 - box.x0) / look.Px(kTickRoom)), 1);
  const ChartTicks ticks = TicksOf(range, most);
  float end = box.x0 - look.Px(28);  // of the label before
  for (const double value : ticks.values) {
    const float x = box.x0 + (box.x1 - box.x0) * static_cast<float>(range.Share(value));
    ImGui::GetWindowDrawList()->AddLine({x, box.y0}, {x, box.y1},
                                        ui::WithAlpha(look.theme.surface.line, 0.6F));
    const std::string text = TickText(UnitOfColumn(name), value, ticks.step);
    const float width = widgets::TextSize(look, faint, text).x;
    const float text_left = std::min(x - width / 2, box.x1 - width);
    if (text_left < end) continue;
    end = widgets::DrawText(look, faint, {text_left, top}, text).x1 + look.Px(8);
  }
}

void DrawSeriesLine(const widgets::Look& look, const ChartSeries& series, const ui::Box& part,
                    const ChartRange& range, ui::Color color) {
  ImDrawList* list = ImGui::GetWindowDrawList();
  const bool has_dots =
      static_cast<float>(series.points.size()) * look.Px(kRoomOfDot) < part.x1 - part.x0;
  std::optional<ImVec2> before;
  for (const ChartPoint& point : series.points) {
    const float x = part.x0 + static_cast<float>(point.pixel);
    const ImVec2 first{x, YOf(part, range, point.first)};
    if (before) list->AddLine(*before, first, color, look.Px(1.5F));
    if (point.low < point.high) {
      list->AddRectFilled({x - 0.5F, YOf(part, range, point.high)},
                          {x + 0.5F, YOf(part, range, point.low)}, color);
    }
    if (has_dots) list->AddCircleFilled(first, look.Px(2), color, 8);
    before = ImVec2{x, YOf(part, range, point.last)};
  }
}

std::string NameOfColumn(const query::SelectedRows& rows, size_t column) {
  return Printable(rows.names[column]);
}

void DrawSeriesLegend(const PanelFrame& frame, const query::SelectedRows& rows,
                      const std::vector<ChartSeries>& series, const ui::Box& box) {
  const widgets::Look& look = frame.look;
  std::vector<widgets::LegendEntry> entries;
  for (const ChartSeries& one : series) {
    const std::string name = NameOfColumn(rows, one.column);
    const auto draw = [&look,
                       color = ColorOfSeries(look.theme, entries.size())](const ui::Box& swatch) {
      widgets::DrawSwatch(look, {swatch.x0, swatch.y0}, 9, color, false);
    };
    entries.push_back({name, name, nullptr, draw});
  }
  widgets::DrawLegend(
      look, entries, box,
      {.text = widgets::FaintOf(look), .swatch_top = 3, .text_top = 1, .line = kSqlLegendHeight},
      frame.log);
}

}  // namespace

ChartUnit UnitOfColumn(std::string_view name) {
  if (name.ends_with("_ns")) return ChartUnit::kNs;
  if (name.ends_with("_ms")) return ChartUnit::kMs;
  return name.ends_with("_bytes") ? ChartUnit::kBytes : ChartUnit::kNone;
}

ChartColumns ColumnsToChart(const query::SelectedRows& rows) {
  ChartColumns columns;
  for (size_t column = 0; column < rows.names.size(); ++column) {
    if (columns.y.size() > kMostChartSeries) break;
    if (HasNumbersOnly(rows, column)) columns.y.push_back(column);
  }
  if (columns.y.size() > 1 && columns.y.front() == 0) {
    columns.x = 0;
    columns.y.erase(columns.y.begin());
  }
  if (columns.y.size() > kMostChartSeries) columns.y.pop_back();
  return columns;
}

// In halves, as the whole may be more than a double holds.
double ChartRange::Share(double value) const {
  return high / 2 > low / 2 ? (value / 2 - low / 2) / (high / 2 - low / 2) : 0.5;
}
double ChartRange::At(double share) const { return low * (1 - share) + high * share; }

SqlPlot PlotOf(const query::SelectedRows& rows, const ChartColumns& columns, int width) {
  SqlPlot plot;
  const std::vector<std::optional<double>> places = PlacesOnAxis(rows, columns);
  std::optional<ChartRange> x;
  for (const std::optional<double>& place : places) {
    if (place) IncludeValue(*place, &x);
  }
  plot.x = x.value_or(ChartRange());
  for (const size_t column : columns.y) {
    std::vector<std::optional<ChartPoint>> pixels(static_cast<size_t>(width));
    std::optional<ChartRange> range;
    for (size_t row = 0; row < rows.rows.size(); ++row) {
      const std::optional<double> value = FiniteNumber(rows.rows[row][column]);
      if (!value || !places[row]) continue;
      IncludeValue(*value, &range);
      const auto pixel = std::lround(plot.x.Share(*places[row]) * (width - 1));
      AddRow(row, *value, &pixels[static_cast<size_t>(pixel)]);
    }
    ChartSeries& series = plot.series.emplace_back();
    series.column = column;
    series.unit = UnitOfColumn(rows.names[column]);
    for (int pixel = 0; pixel < width; ++pixel) {
      const std::optional<ChartPoint>& point = pixels[static_cast<size_t>(pixel)];
      if (!point) continue;
      series.points.push_back(*point);
      series.points.back().pixel = pixel;
    }
    if (!range) continue;
    const auto unit = std::ranges::find(plot.units, series.unit);
    if (unit == plot.units.end()) {
      plot.units.push_back(series.unit);
      plot.ranges.push_back(*range);
    } else {
      ChartRange& all = plot.ranges[static_cast<size_t>(unit - plot.units.begin())];
      all = {std::min(all.low, range->low), std::max(all.high, range->high)};
    }
  }
  for (ChartRange& range : plot.ranges) range = WithRoom(range);
  return plot;
}

std::optional<size_t> NearestRow(const SqlPlot& plot, ChartUnit unit, int pixel, double value) {
  std::optional<size_t> nearest;
  std::pair<int, double> least;
  for (const ChartSeries& series : plot.series) {
    if (series.unit != unit) continue;
    for (const ChartPoint& point : series.points) {
      for (const auto& [at, row] :
           {std::pair(point.low, point.low_row), std::pair(point.high, point.high_row)}) {
        const std::pair distance(std::abs(point.pixel - pixel), std::abs(at - value));
        if (nearest && distance >= least) continue;
        nearest = row;
        least = distance;
      }
    }
  }
  return nearest;
}

ChartTicks TicksOf(const ChartRange& range, int most) {
  const double least = range.high / most - range.low / most;
  ChartTicks ticks;
  if (!(least > 0)) {  // one value
    ticks.values.push_back(range.low);
    return ticks;
  }
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double times : {1.0, 2.0, 5.0, 10.0}) {
    ticks.step = times * power;
    if (ticks.step >= least) break;
  }
  if (!std::isfinite(ticks.step) || !(ticks.step > 0)) return {};
  const double first = std::ceil(range.low / ticks.step);
  for (int at = 0; at <= most; ++at) {
    const double value = (first + at) * ticks.step;
    if (!(value <= range.high)) break;
    ticks.values.push_back(value);
  }
  return ticks;
}

std::string TickText(ChartUnit unit, double value, double step) {
  static constexpr std::array kNames = {"", " k", " M", " G"};
  static constexpr std::array kTimes = {" ns", " µs", " ms", " s"};
  static constexpr std::array kSizes = {" B", " kB", " MB", " GB"};
  if (value == 0) return "0";
  const bool is_time = unit == ChartUnit::kNs || unit == ChartUnit::kMs;
  const auto& names = is_time ? kTimes : unit == ChartUnit::kBytes ? kSizes : kNames;
  size_t at = 0;
  if (unit == ChartUnit::kMs) {
    value *= 1e6;
    step *= 1e6;
  }
  // Numbers of steps and rows are read as they are.
  if (unit != ChartUnit::kNone || std::abs(value) >= 1e6) {
    for (; at + 1 < names.size() && std::abs(value) >= 1000; ++at) {
      value /= 1000;
      step /= 1000;
    }
  }
  constexpr double kAsExact = 1e-9;  // as logarithms of powers of ten are
  constexpr double kMostDecimals = 6;
  const double decimals = step > 0 ? std::max(std::ceil(-std::log10(step) - kAsExact), 0.0) : 0;
  if (step == 0 || decimals > kMostDecimals || std::abs(value) >= 1e12) {
    return fmt::format("{:.6g}{}", value, names[at]);
  }
  return fmt::format("{:.{}f}{}", value, static_cast<int>(decimals), names[at]);
}

bool SqlChart::Show(const std::shared_ptr<const ui::SqlAnswer>& answer) {
  if (answer_ != answer) {
    answer_ = answer;
    columns_ = ColumnsToChart(answer->rows);
    width_ = 0;
  }
  return !columns_.y.empty();
}

void SqlChart::DrawHover(const PanelFrame& frame, const ui::Box& box, bool is_clicked) const {
  const ImVec2 mouse = ImGui::GetIO().MousePos;
  std::optional<size_t> row;
  for (size_t at = 0; at < plot_.units.size(); ++at) {
    const ui::Box part = ChartPart(frame.look, box, at, plot_.units.size());
    if (mouse.y < part.y0 && row) break;
    const double share = (part.y1 - mouse.y) / (part.y1 - part.y0);
    row = NearestRow(plot_, plot_.units[at], static_cast<int>(mouse.x - box.x0),
                     plot_.ranges[at].At(share));
  }
  if (!row) return;
  const query::SelectedRows& rows = answer_->rows;
  const std::vector<query::Cell>& cells = rows.rows[*row];
  const std::optional<double> place =
      columns_.x ? FiniteNumber(cells[*columns_.x]) : static_cast<double>(*row + 1);
  const float x = box.x0 + (box.x1 - box.x0) * static_cast<float>(plot_.x.Share(*place));
  ImGui::GetWindowDrawList()->AddLine({x, box.y0}, {x, box.y1}, frame.look.theme.ink.dim);
  std::vector<std::string> lines;
  for (size_t column = 0; column < std::min(cells.size(), kMostTipColumns); ++column) {
    const std::string text = Printable(query::ShownText(cells[column]));
    lines.push_back(NameOfColumn(rows, column) + "  " + Shortened(text, kMostTipText));
  }
  const std::string title = ui::TrFormat(frame.context.language, Text::kSqlRowN, *row + 1);
  const std::string detail = Join(lines, "\n");
  frame.log->Int("tooltip", title + "\n" + detail, static_cast<int64_t>(*row), "",
                 widgets::Tooltip(frame.look, title, detail, frame.look.theme.surface.line));
  if (!is_clicked) return;
  for (ui::Command& command :
       CommandsToShow(*frame.context.snapshot, rows.origin_ns, rows.names, cells)) {
    frame.commands->push_back(std::move(command));
  }
}

void SqlChart::Draw(const PanelFrame& frame) {
  const widgets::Look& look = frame.look;
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const ImVec2 room = ImGui::GetContentRegionAvail();
  const ui::Box box{at.x + look.Px(kSqlAxisWidth), at.y + look.Px(kSqlLegendHeight),
                    at.x + room.x - look.Px(8), at.y + room.y - look.Px(kSqlAxisHeight)};
  const auto width = static_cast<int>(box.x1 - box.x0);
  if (width < 1) return;
  const query::SelectedRows& rows = answer_->rows;
  if (width_ != width) {
    plot_ = PlotOf(rows, columns_, width);
    width_ = width;
  }
  const size_t num_parts = plot_.units.size();  // 0: no row has a place
  if (box.y1 - box.y0 < look.Px(kLeastPart) * static_cast<float>(std::max<size_t>(num_parts, 1)))
    return;
  const std::string axis =
      columns_.x ? NameOfColumn(rows, *columns_.x) : std::string(frame.Tr(Text::kSqlRowAxis));
  DrawSeriesLegend(frame, rows, plot_.series, {box.x0, at.y, box.x1, box.y0});
  DrawRowAxis(look, box, plot_.x, axis);
  frame.log->Int("chart", axis, static_cast<int64_t>(rows.rows.size()), "", box);
  for (size_t unit = 0; unit < num_parts; ++unit) {
    const ui::Box part = ChartPart(look, box, unit, num_parts);
    DrawPartAxis(look, part, plot_.units[unit], plot_.ranges[unit]);
    for (size_t one = 0; one < plot_.series.size(); ++one) {
      const ChartSeries& series = plot_.series[one];
      if (series.unit != plot_.units[unit]) continue;
      DrawSeriesLine(look, series, part, plot_.ranges[unit], ColorOfSeries(look.theme, one));
      frame.log->Int("series:" + rows.names[series.column], NameOfColumn(rows, series.column),
                     static_cast<int64_t>(series.points.size()), "", part);
    }
  }
  ImGui::SetCursorScreenPos({box.x0, box.y0});
  const bool is_clicked = ImGui::InvisibleButton("##chart", {box.x1 - box.x0, box.y1 - box.y0});
  if (ImGui::IsItemHovered() && !frame.context.headless) DrawHover(frame, box, is_clicked);
}

}  // namespace shardscope::panels
