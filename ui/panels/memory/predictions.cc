#include "ui/panels/memory/predictions.h"

#include <imgui.h>

#include <algorithm>
#include <string>
#include <vector>

#include "trace/base/units.h"
#include "ui/text.h"
#include "ui/timeline/draw/decoration.h"
#include "ui/widgets/look.h"

namespace shardscope::panels {
namespace {

// Steps of one Schedule that follow each other, in pixels.
struct Stretch {
  const query::Schedule* schedule = nullptr;
  float x0 = 0;
  float x1 = 0;
};

std::vector<Stretch> StretchesInView(const query::Snapshot& snapshot, const query::RankRows& rows,
                                     const timeline::Axis& axis, const ui::Box& box) {
  const auto first = std::partition_point(
      rows.steps.begin(), rows.steps.end(),
      [&](const query::Step& step) { return step.end_ns <= axis.range().start_ns; });
  const auto last = std::partition_point(first, rows.steps.end(), [&](const query::Step& step) {
    return step.start_ns < axis.range().end_ns;
  });
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

struct Line {
  int64_t query::Schedule::*bytes;
  const char* id;
  ui::Text text;
  float label_px;  // from the line down to the top of its label
};
// The bound is never the lower one: the two labels keep apart.
constexpr Line kLines[] = {
    {&query::Schedule::predicted_peak_bytes, "predicted_peak:", ui::Text::kPredictedPeak, 2},
    {&query::Schedule::executed_bound_bytes, "executed_bound:", ui::Text::kExecutedBound, -15}};

void DrawLine(const ui::Context& context, const std::vector<Stretch>& stretches,
              const MemoryPlot& plot, const Line& line, ui::DrawLog* log) {
  const widgets::Look look = widgets::LookOf(context);
  const float height = plot.box.y1 - plot.box.y0;
  float y = 0;
  int64_t bytes = 0;  // of the last stretch that has any
  for (const Stretch& stretch : stretches) {
    if (stretch.schedule->*line.bytes <= 0) continue;
    bytes = stretch.schedule->*line.bytes;
    const double share = static_cast<double>(bytes) / static_cast<double>(plot.max_bytes);
    y = plot.box.y1 - height * static_cast<float>(share);
    timeline::DrawDashedHorizontal(look, stretch.x0 + look.Px(3), stretch.x1 - look.Px(3), y,
                                   look.theme.ink.dim);
  }
  if (bytes == 0) return;
  const std::string text = ui::TrFormat(context.language, line.text, FormatBytes(bytes));
  const widgets::TextStyle style{look.fonts.text, ui::kSmallTextSize, look.theme.ink.dim};
  const ImVec2 at(plot.box.x1 - look.Px(4), y + look.Px(line.label_px));
  const ImVec2 size = widgets::TextSize(look, style, text);
  // The dashed line stands without it where there is no room.
  if (size.x > plot.box.x1 - plot.box.x0 - look.Px(8)) return;
  ImGui::GetWindowDrawList()->AddRectFilled(  // readable over any band
      {at.x - size.x - look.Px(3), at.y}, {at.x + look.Px(3), at.y + size.y},
      ui::WithAlpha(look.theme.surface.panel, 0.8F));
  const ui::Box drawn = widgets::DrawTextRight(look, style, at, text);
  log->Int(line.id + std::to_string(plot.rank), text, bytes, "B", drawn);
}

}  // namespace

int64_t LargestPrediction(const query::Snapshot& snapshot) {
  int64_t largest = 0;
  for (const auto& [id, schedule] : snapshot.schedules) {
    largest = std::max({largest, schedule.predicted_peak_bytes, schedule.executed_bound_bytes});
  }
  return largest;
}

void DrawPredictions(const ui::Context& context, const timeline::Axis& axis, const MemoryPlot& plot,
                     ui::DrawLog* log) {
  const query::RankRows* rows = context.snapshot->FindRank(plot.rank);
  if (rows == nullptr) return;
  const std::vector<Stretch> stretches = StretchesInView(*context.snapshot, *rows, axis, plot.box);
  for (const Line& line : kLines) DrawLine(context, stretches, plot, line, log);
}

}  // namespace shardscope::panels
