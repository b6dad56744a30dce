#include "ui/timeline/draw/draw_pauses.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>

#include "ui/text.h"
#include "ui/widgets/look.h"

namespace shardscope::timeline {
namespace {

constexpr float kMinBand = 1;
constexpr float kPauseLabelPadding = 4;

}  // namespace

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
