#include "ui/panels/memory/plot_lines.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <string>
#include <utility>

#include "trace/base/units.h"
#include "trace/query/snapshot.h"
#include "trace/query/step_times.h"
#include "ui/panels/memory/memory_limit.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

using widgets::Look;

constexpr float kLineGap = 2;                // between a line and a label
constexpr float kRoomOverPlot = 14;          // for labels of lines near its top
constexpr float kRoomUnderPlot = 8;          // and near its bottom: both stand between two rows
constexpr float kPlateMargin = 4;            // to the sides of the plot
constexpr float kPlatePadding = 3;           // of the plate under labels
constexpr const char* kSeparator = "  ·  ";  // between labels in a row

// Steps of one Schedule that follow each other, in pixels.
struct Stretch {
  const query::Schedule* schedule = nullptr;
  float x0 = 0;
  float x1 = 0;
};

std::vector<Stretch> StretchesInView(const query::Snapshot& snapshot, const query::RankRows& rows,
                                     const timeline::Axis& axis, const ui::Box& box) {
  const auto [first, last] =
      query::StepsThatTouch(rows, {axis.range().start_ns, axis.range().end_ns});
  std::vector<Stretch> stretches;
  for (auto step = first; step != last;) {
    auto next = step;
    while (next != last && next->schedule == step->schedule) ++next;
    const auto found = snapshot.schedules.find(step->schedule);
    if (found != snapshot.schedules.end()) {
      stretches.push_back({&found->second, std::max(axis.X(step->start_ns), box.x0),
                           next == last ? box.x1 : std::min(axis.X(next->start_ns), box.x1)});
    }
    step = next;
  }
  return stretches;
}

// A line's label.
struct LineLabel {
  std::string id;
  std::string text;
  int64_t bytes = 0;
  ui::Color color = 0;
  float y = 0;           // of the line
  bool is_left = false;  // else at the right
};

class PlotLines {
 public:
  PlotLines(const ui::Context& context, const MemoryPlot& plot)
      : context_(context), look_(widgets::LookOf(context)), plot_(plot) {}

  // Where a Schedule has such a prediction; the label is of the last one in view.
  void Predict(const std::vector<Stretch>& stretches, int64_t query::SchedulePeak::*bytes,
               ui::Text text, LineLabel label) {
    label.color = look_.theme.ink.dim;
    for (const Stretch& stretch : stretches) {
      const int64_t of_rank = stretch.schedule->PeakOf(plot_.rank).*bytes;
      if (of_rank <= 0) continue;
      label.bytes = of_rank;
      label.y = DrawLine(stretch.x0, stretch.x1, of_rank, label.color);
    }
    if (label.bytes == 0) return;
    label.text = ui::TrFormat(context_.language, text, FormatBytes(label.bytes));
    labels_.push_back(std::move(label));
  }

  void Limit(int64_t bytes) {
    if (bytes <= 0 || bytes > plot_.max_bytes) return;
    const float y = DrawLine(plot_.box.x0, plot_.box.x1, bytes, look_.theme.op.exposed);
    labels_.push_back({.id = "memory_limit",
                       .text = "engine.memory_limit " + FormatBytes(bytes),
                       .bytes = bytes,
                       .color = look_.theme.state.bad,
                       .y = y,
                       .is_left = true});
  }

  // Once all lines are there. A line stands without its label where there is no room.
  void DrawLabels(ui::DrawLog* log) {
    const ui::Box& box = plot_.box;
    std::vector<LabelSize> sizes;
    std::vector<ui::Box> drawn;
    for (const LineLabel& label : labels_) {
      sizes.push_back(
          {label.y, widgets::TextSize(look_, StyleOf(label), label.text).x, label.is_left});
      drawn.push_back({box.x0, label.y, box.x1, label.y + look_.Px(1)});
    }
    for (const LabelRow& row : PlaceLabels(sizes, Field())) {
      const float padding = look_.Px(kPlatePadding);
      ImGui::GetWindowDrawList()->AddRectFilled(  // readable over any band
          {row.box.x0 - padding, row.box.y0}, {row.box.x1 + padding, row.box.y1},
          ui::WithAlpha(look_.theme.surface.panel, 0.8F));
      float x = row.box.x0;
      for (const size_t at : row.labels) {
        if (at != row.labels.front()) {
          widgets::DrawText(look_, SeparatorStyle(), {x, row.box.y0}, kSeparator);
          x += SeparatorWidth();
        }
        drawn[at] =
            widgets::DrawText(look_, StyleOf(labels_[at]), {x, row.box.y0}, labels_[at].text);
        x += sizes[at].width;
      }
    }
    for (size_t at = 0; at < labels_.size(); ++at) {
      log->Int(labels_[at].id, labels_[at].text, labels_[at].bytes, "B", drawn[at]);
    }
  }

 private:
  widgets::TextStyle StyleOf(const LineLabel& label) const {
    return {look_.fonts.text, ui::kSmallTextSize, label.color};
  }
  widgets::TextStyle SeparatorStyle() const {
    return {look_.fonts.text, ui::kSmallTextSize, look_.theme.ink.dim};
  }
  float SeparatorWidth() const { return widgets::TextSize(look_, SeparatorStyle(), kSeparator).x; }

  LabelField Field() const {
    const float margin = look_.Px(kPlateMargin);
    return {.bounds = {plot_.box.x0 + margin, plot_.box.y0 - look_.Px(kRoomOverPlot),
                       plot_.box.x1 - margin, plot_.box.y1 + look_.Px(kRoomUnderPlot)},
            .height = widgets::TextSize(look_, SeparatorStyle(), kSeparator).y,
            .gap = look_.Px(kLineGap),
            .apart = SeparatorWidth(),
            .lines = lines_};
  }

  float Y(int64_t bytes) const {
    const double share = static_cast<double>(bytes) / static_cast<double>(plot_.max_bytes);
    const float height = plot_.box.y1 - plot_.box.y0;
    return std::round(plot_.box.y1 - height * static_cast<float>(share));
  }

  // Returns its y.
  float DrawLine(float x0, float x1, int64_t bytes, ui::Color color) {
    const float y = Y(bytes);
    timeline::DrawDashedHorizontal(look_, x0 + look_.Px(3), x1 - look_.Px(3), y, color);
    lines_.push_back({x0, y, x1, y});
    return y;
  }

  const ui::Context& context_;
  const Look look_;
  const MemoryPlot& plot_;
  std::vector<ui::Box> lines_;
  std::vector<LineLabel> labels_;
};

// Places the labels of lines that lie near one another.
class LabelPlacer {
 public:
  LabelPlacer(const std::vector<LabelSize>& labels, const LabelField& field)
      : labels_(labels), field_(field), top_(field.bounds.y0) {}

  // `group`: from the lowest line to the highest. Groups come from the top.
  void Place(const std::vector<size_t>& group) {
    const float over_y = labels_[group.back()].line_y - field_.gap - field_.height;
    const float under_y = labels_[group.front()].line_y + field_.gap;
    // As many over the lines as fit, from the highest.
    for (size_t under = 0; under <= group.size(); ++under) {
      const auto split = group.begin() + static_cast<std::ptrdiff_t>(under);
      const std::optional<LabelRow> above = Row({split, group.end()}, over_y);
      const std::optional<LabelRow> below = Row({group.begin(), split}, under_y);
      if (!above || !below) continue;
      Add(*above);
      Add(*below);
      return;
    }
    // There is no room for all. Those over the lines may have it alone, but for the lowest.
    for (size_t under = 1; under < group.size(); ++under) {
      const auto split = group.begin() + static_cast<std::ptrdiff_t>(under);
      const std::optional<LabelRow> above = Row({split, group.end()}, over_y);
      if (!above) continue;
      Add(*above);
      return;
    }
  }

  std::vector<LabelRow> Take() { return std::move(rows_); }

 private:
  // nullopt: there is no room. Of no labels there always is.
  std::optional<LabelRow> Row(std::vector<size_t> labels, float y) const {
    if (labels.empty()) return LabelRow{};
    float width = field_.apart * static_cast<float>(labels.size() - 1);
    for (const size_t label : labels) width += labels_[label].width;
    const ui::Box& bounds = field_.bounds;
    const bool is_left = labels.size() == 1 && labels_[labels.front()].is_left;
    const float x0 = is_left ? bounds.x0 : bounds.x1 - width;
    const ui::Box box{x0, y, x0 + width, y + field_.height};
    const auto crosses = [&](const ui::Box& line) {
      return line.x0 < box.x1 && box.x0 < line.x1 && line.y0 > box.y0 - field_.gap &&
             line.y0 < box.y1 + field_.gap;
    };
    const bool is_free = width <= bounds.x1 - bounds.x0 && box.y0 >= top_ && box.y1 <= bounds.y1 &&
                         std::none_of(field_.lines.begin(), field_.lines.end(), crosses);
    if (!is_free) return std::nullopt;
    return LabelRow{std::move(labels), box};
  }

  void Add(const LabelRow& row) {
    if (row.labels.empty()) return;
    top_ = row.box.y1;
    rows_.push_back(row);
  }

  const std::vector<LabelSize>& labels_;
  const LabelField& field_;
  float top_;  // where there is room from on
  std::vector<LabelRow> rows_;
};

}  // namespace

std::vector<LabelRow> PlaceLabels(const std::vector<LabelSize>& labels, const LabelField& field) {
  std::vector<size_t> order(labels.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return labels[a].line_y > labels[b].line_y; });
  // Between two lines a label has to be nearer to its own, visibly.
  const float least_apart = field.height + 4 * field.gap;
  LabelPlacer placer(labels, field);
  while (!order.empty()) {  // from the top
    auto first = order.end() - 1;
    while (first != order.begin() &&
           labels[*(first - 1)].line_y - labels[*first].line_y < least_apart) {
      --first;
    }
    placer.Place({first, order.end()});
    order.erase(first, order.end());
  }
  return placer.Take();
}

void DrawPlotLines(const ui::Context& context, const timeline::Axis& axis, const MemoryPlot& plot,
                   ui::DrawLog* log) {
  PlotLines lines(context, plot);
  if (const query::RankRows* rows = context.snapshot->FindRank(plot.rank)) {
    const std::vector<Stretch> stretches =
        StretchesInView(*context.snapshot, *rows, axis, plot.box);
    const std::string rank = std::to_string(plot.rank);
    // The bound is never the lower one.
    lines.Predict(stretches, &query::SchedulePeak::predicted_bytes, ui::Text::kPredictedPeak,
                  {.id = "predicted_peak:" + rank});
    lines.Predict(stretches, &query::SchedulePeak::bound_bytes, ui::Text::kExecutedBound,
                  {.id = "executed_bound:" + rank});
  }
  lines.Limit(MemoryLimitOf(*context.snapshot));
  lines.DrawLabels(log);
}

}  // namespace shardscope::panels
