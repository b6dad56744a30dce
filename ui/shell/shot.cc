#include "ui/shell/shot.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "trace/analysis/changes.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/drawn_json.h"
#include "ui/shell/shell.h"
#include "ui/shell/view_controller.h"
#include "ui/timeline/axis.h"

namespace shardscope::shell {
namespace {

// Docking, layout and the panels' own measuring settle within three frames; the rest is room.
constexpr int kSettlingFrames = 6;

Status CheckStep(const query::Snapshot& snapshot, int32_t step) {
  if (step < 0) return Status::Ok();
  int32_t first = -1;
  int32_t last = -1;
  for (const query::RankRows& rank : snapshot.ranks) {
    for (const query::Step& row : rank.steps) {
      if (row.step == step) return Status::Ok();
      first = first < 0 ? row.step : std::min(first, row.step);
      last = std::max(last, row.step);
    }
  }
  if (last < 0) {
    return Status::Error(fmt::format("no step {}: this trace has no finished step yet", step));
  }
  return Status::Error(
      fmt::format("no step {}: this trace has the steps {} to {}", step, first, last));
}

// Of the first of these steps to the last, on any rank.
query::TimeRange TimesOf(const std::vector<analysis::StepBreakdown>& steps, int32_t first,
                         int32_t last) {
  query::TimeRange times{INT64_MAX, INT64_MIN};
  for (const analysis::StepBreakdown& row : steps) {
    if (row.step < first || row.step > last) continue;
    times.from_ns = std::min(times.from_ns, row.start_ns);
    times.to_ns = std::max(times.to_ns, row.end_ns);
  }
  return times;
}

}  // namespace

std::optional<std::vector<query::TimeRange>> TimesOfShot(const query::Snapshot& summary,
                                                         const ShotOptions& options) {
  const bool whole_run = !options.scope || options.scope->kind == analysis::ScopeKind::kWholeRun;
  // A picture of all ranks or collectives is made of all rows.
  const bool whole_panel = options.panel == "ranks" || options.panel == "collectives";
  if (!whole_run || whole_panel || !options.search.empty()) return std::nullopt;
  const ui::View view = InitialView(summary, options.step);
  std::vector<query::TimeRange> times = {{view.start_ns, view.end_ns}};
  if (options.area) {
    const Result<analysis::AreaQuery> area = analysis::ResolveArea(summary, *options.area, {});
    if (!area.ok()) return times;  // an error of the picture
    const timeline::Range fit = timeline::FitWithMargin({area->time.start_ns, area->time.end_ns});
    times.push_back({fit.start_ns, fit.end_ns});
  }
  const std::vector<analysis::StepBreakdown> steps = analysis::Breakdowns(summary);
  const auto effects = analysis::EffectsOfChanges(steps, summary.markers);
  if (!effects.empty() && effects.back().num_steps > 0) {
    const analysis::ChangeEffect& newest = effects.back();
    times.push_back(
        TimesOf(steps, newest.step - newest.num_steps, newest.step + newest.num_steps - 1));
  }
  return times;
}

Result<Shot> TakeShot(query::SnapshotPtr snapshot, const ShotOptions& options) {
  const Status step = CheckStep(*snapshot, options.step);
  if (!step.ok()) return step;
  std::optional<analysis::AreaQuery> area;
  if (options.area) {
    SHARDSCOPE_ASSIGN_OR_RETURN(area, analysis::ResolveArea(*snapshot, *options.area, {}));
  }
  Gui gui;
  if (options.language == ui::Language::kChinese && !gui.fonts().has_cjk) {
    return Status::Error(
        "no font with Chinese characters on this system: install fonts-noto-cjk, or use "
        "--language en");
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(auto surface, HeadlessSurface::Create(options.width, options.height));
  ShellOptions shell_options;
  shell_options.settings.language = options.language;
  shell_options.settings.theme = options.theme;
  shell_options.settings.scale = options.scale;
  shell_options.headless = true;
  shell_options.log_drawing = true;
  Shell shell(std::move(shell_options), gui.fonts().fonts);
  shell.OpenSnapshot(std::move(snapshot));
  shell.ShowStep(options.step);
  shell.Post(ui::SetScope{options.scope});
  if (!options.panel.empty()) shell.Post(ui::FocusPanel{options.panel});
  if (area) {
    shell.Post(ui::SelectArea{area});
    if (options.step < 0) shell.Post(ui::FitSelection{});
  }
  if (!options.search.empty()) {
    shell.Post(ui::ShowSearch{true});
    shell.Post(ui::SearchFor{options.search});
  }
  for (int i = 0; i < kSettlingFrames; ++i) {
    surface->BeginFrame();
    ImGui::NewFrame();
    shell.Frame();
    ImGui::Render();
    surface->EndFrame();
  }
  if (options.scope) {
    const Status has_steps = analysis::CheckHasSteps(*options.scope, shell.context().report->steps);
    if (!has_steps.ok()) return has_steps;
  }
  return Shot{surface->Read(), shell.draw_log()};
}

std::string PrintShotJson(const query::Snapshot& snapshot, const ShotOptions& options,
                          const ui::DrawLog& log) {
  return PrintDrawn(
      {snapshot.name, options.width, options.height, options.language, options.theme, {}}, log);
}

}  // namespace shardscope::shell
