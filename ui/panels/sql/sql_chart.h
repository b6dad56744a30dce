// The chart of the panel SQL: the numbers of a result as lines over one axis, a part of its height
// for each unit that they have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trace/query/select.h"
#include "ui/context.h"
#include "ui/draw_log.h"

namespace shardscope::panels {

struct PanelFrame;

// What the numbers of a column are, by the end of its name: "_ns", "_ms", "_bytes".
enum class ChartUnit : uint8_t { kNone, kNs, kMs, kBytes };
ChartUnit UnitOfColumn(std::string_view name);

inline constexpr size_t kMostChartSeries = 6;

struct ChartColumns {
  std::optional<size_t> x;  // none: the number of the row, from 1
  std::vector<size_t> y;    // the first that have numbers; empty: there is nothing to draw
};
// A column is drawn that has numbers, and nothing else but NULL.
ChartColumns ColumnsToChart(const query::SelectedRows& rows);

// The rows of a column that fall on one pixel of the axis.
struct ChartPoint {
  int pixel = 0;
  double first = 0;  // in the order of the rows
  double last = 0;
  double low = 0;
  double high = 0;
  size_t low_row = 0;
  size_t high_row = 0;
};

struct ChartRange {
  double low = 0;
  double high = 0;

  // 0 to 1; of a range without length the middle.
  double Share(double value) const;
  double At(double share) const;
};

struct ChartSeries {
  size_t column = 0;
  ChartUnit unit = ChartUnit::kNone;
  std::vector<ChartPoint> points;  // from left to right
};

struct SqlPlot {
  ChartRange x;
  std::vector<ChartSeries> series;
  std::vector<ChartUnit> units;    // of the series, each once
  std::vector<ChartRange> ranges;  // of each unit
};
// Reduced to `width` pixels, at least 1: no extreme of a pixel is lost.
SqlPlot PlotOf(const query::SelectedRows& rows, const ChartColumns& columns, int width);

// Of the series with the unit, the row nearest to a place: by the pixel, then by the value.
std::optional<size_t> NearestRow(const SqlPlot& plot, ChartUnit unit, int pixel, double value);

struct ChartTicks {
  double step = 0;  // 1, 2 or 5 times a power of ten
  std::vector<double> values;
};
// With at most `most` parts between them, at least 1.
ChartTicks TicksOf(const ChartRange& range, int most);

// "1.5 ms": with as many decimals as `step` needs.
std::string TickText(ChartUnit unit, double value, double step);

class SqlChart {
 public:
  // Whether there is something to draw.
  bool Show(const std::shared_ptr<const ui::SqlAnswer>& answer);

  // What Show() was given last, in what room there is. A click does what one on that row does.
  void Draw(const PanelFrame& frame);

 private:
  void DrawHover(const PanelFrame& frame, const ui::Box& box, bool is_clicked) const;

  std::shared_ptr<const ui::SqlAnswer> answer_;
  ChartColumns columns_;
  SqlPlot plot_;   // of `answer_` on `width_` pixels
  int width_ = 0;  // 0: not made yet
};

}  // namespace shardscope::panels
