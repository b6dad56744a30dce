#include "ui/panels/memory/plot_lines.h"

#include <imgui.h>

#include <algorithm>
#include <cmath>
#include <string>

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

constexpr float kLineGap = 2;           // between a line and a label
constexpr float kRoomOverPlot = 14;     // for labels of lines near its top
constexpr float kRoomUnderPlot = 8;     // and near its bottom: both stand between two rows
constexpr float kLabelRounding = 0.1F;  // so much may boxes that touch overlap
constexpr float kPlateMargin = 4;       // to the sides of the plot
constexpr float kPlatePadding = 3;      // of the plate under a label

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
  float y = 0;  // of the line
  bool is_above = false;
  bool is_left = false;  // else at the right
};

class PlotLines {
 public:
  PlotLines(const ui::Context& context, const MemoryPlot& plot)
      : context_(context),
        look_(widgets::LookOf(context)),
        plot_(plot),
        room_({plot.box.x0, plot.box.y0 - look_.Px(kRoomOverPlot), plot.box.x1,
               plot.box.y1 + look_.Px(kRoomUnderPlot)},
              look_.Px(kLineGap)) {}

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
    const ui::Color color = look_.theme.op.exposed;
    const float y = DrawLine(plot_.box.x0, plot_.box.x1, bytes, color);
    labels_.push_back({.id = "memory_limit",
                       .text = "engine.memory_limit " + FormatBytes(bytes),
                       .bytes = bytes,
                       .color = color,
                       .y = y,
                       .is_above = true,
                       .is_left = true});
  }

  // Once all lines are there.
  void DrawLabels(ui::DrawLog* log) {
    for (const LineLabel& label : labels_) {
      log->Int(label.id, label.text, label.bytes, "B", DrawLabel(label));
    }
  }

 private:
  float Y(int64_t bytes) const {
    const double share = static_cast<double>(bytes) / static_cast<double>(plot_.max_bytes);
    const float height = plot_.box.y1 - plot_.box.y0;
    return std::round(plot_.box.y1 - height * static_cast<float>(share));
  }

  // Of the highest that is drawn between these.
  float TopOfData(float x0, float x1) const {
    int64_t most = 0;
    const auto look_at = [&](const auto& boxes) {
      for (const auto& box : boxes) {
        if (box.x0 < x1 && x0 < box.x1) most = std::max(most, box.high_bytes);
      }
    };
    look_at(plot_.stack.boxes);
    look_at(plot_.device.bands);
    return Y(most);
  }

  // Returns its y.
  float DrawLine(float x0, float x1, int64_t bytes, ui::Color color) {
    const float y = Y(bytes);
    timeline::DrawDashedHorizontal(look_, x0 + look_.Px(3), x1 - look_.Px(3), y, color);
    room_.AddLine(x0, x1, y);
    return y;
  }

  // The line stands without it where there is no room.
  ui::Box DrawLabel(const LineLabel& label) {
    const ui::Box& box = plot_.box;
    const ui::Box line{box.x0, label.y, box.x1, label.y + look_.Px(1)};
    const widgets::TextStyle style{look_.fonts.text, ui::kSmallTextSize, label.color};
    const ImVec2 size = widgets::TextSize(look_, style, label.text);
    if (size.x > box.x1 - box.x0 - 2 * look_.Px(kPlateMargin)) return line;
    const auto free = TakeRoom(label, size);
    if (!free) return line;
    ImGui::GetWindowDrawList()->AddRectFilled(  // readable over any band
        {free->x0, free->y0}, {free->x1, free->y1}, ui::WithAlpha(look_.theme.surface.panel, 0.8F));
    return widgets::DrawText(look_, style, {free->x0 + look_.Px(kPlatePadding), free->y0},
                             label.text);
  }

  // For the plate of a label, over the data if it can be: the peak that a line is about lies right
  // under it. At the label's own end of the line, beside other labels, at the other end; else on
  // the data.
  std::optional<ui::Box> TakeRoom(const LineLabel& label, ImVec2 size) {
    const float padding = look_.Px(kPlatePadding);
    const float width = size.x + 2 * padding;
    const float left = plot_.box.x0 + look_.Px(kPlateMargin) - padding;
    const float right = plot_.box.x1 - look_.Px(kPlateMargin) + padding - width;
    const float own = label.is_left ? left : right;
    std::vector<float> places = {own};
    for (const ui::Box& other : room_.labels()) {
      places.push_back(other.x0 - look_.Px(kPlateMargin) - width);
      places.push_back(other.x1 + look_.Px(kPlateMargin));
    }
    places.push_back(label.is_left ? right : left);
    const float y =
        label.is_above ? label.y - look_.Px(kLineGap) - size.y : label.y + look_.Px(kLineGap);
    for (const float x : places) {
      if (x < left || x > right) continue;
      const auto free = room_.Take({x, y, x + width, y + size.y}, TopOfData(x, x + width));
      if (free) return free;
    }
    return room_.Take({own, y, own + width, y + size.y});
  }

  const ui::Context& context_;
  const Look look_;
  const MemoryPlot& plot_;
  LabelRoom room_;
  std::vector<LineLabel> labels_;
};

}  // namespace

bool LabelRoom::IsFree(const ui::Box& box) const {
  const auto meets = [&box](const ui::Box& other) {
    return box.x0 < other.x1 && other.x0 < box.x1 && box.y0 + kLabelRounding < other.y1 &&
           other.y0 + kLabelRounding < box.y1;
  };
  return box.y0 >= bounds_.y0 && box.y1 <= bounds_.y1 &&
         std::none_of(lines_.begin(), lines_.end(), meets) &&
         std::none_of(labels_.begin(), labels_.end(), meets);
}

std::optional<ui::Box> LabelRoom::Take(const ui::Box& wanted, std::optional<float> lowest) {
  const float height = wanted.y1 - wanted.y0;
  std::vector<float> places = {wanted.y0};
  if (lowest) places.push_back(*lowest - height);
  for (const auto* taken : {&lines_, &labels_}) {
    for (const ui::Box& box : *taken) {
      places.push_back(box.y0 - height);
      places.push_back(box.y1);
    }
  }
  std::stable_sort(places.begin(), places.end(), [&wanted](float a, float b) {
    return std::fabs(a - wanted.y0) < std::fabs(b - wanted.y0);
  });
  for (const float y : places) {
    const ui::Box box{wanted.x0, y, wanted.x1, y + height};
    if (lowest && box.y1 > *lowest + kLabelRounding) continue;
    if (!IsFree(box)) continue;
    labels_.push_back(box);
    return box;
  }
  return std::nullopt;
}

void DrawPlotLines(const ui::Context& context, const timeline::Axis& axis, const MemoryPlot& plot,
                   ui::DrawLog* log) {
  PlotLines lines(context, plot);
  if (const query::RankRows* rows = context.snapshot->FindRank(plot.rank)) {
    const std::vector<Stretch> stretches =
        StretchesInView(*context.snapshot, *rows, axis, plot.box);
    const std::string rank = std::to_string(plot.rank);
    lines.Predict(stretches, &query::SchedulePeak::predicted_bytes, ui::Text::kPredictedPeak,
                  {.id = "predicted_peak:" + rank});
    // The bound is never the lower one.
    lines.Predict(stretches, &query::SchedulePeak::bound_bytes, ui::Text::kExecutedBound,
                  {.id = "executed_bound:" + rank, .is_above = true});
  }
  lines.Limit(MemoryLimitOf(*context.snapshot));
  lines.DrawLabels(log);
}

}  // namespace shardscope::panels
