#include "ui/shell/shot.h"

#include <fmt/format.h>
#include <imgui.h>

#include <utility>

#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/drawn_json.h"
#include "ui/shell/shell.h"

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

}  // namespace

Result<Shot> TakeShot(query::SnapshotPtr snapshot, const ShotOptions& options) {
  const Status step = CheckStep(*snapshot, options.step);
  if (!step.ok()) return step;
  Gui gui;
  if (options.language == ui::Language::kChinese && !gui.fonts().has_cjk) {
    return Status::Error(
        "no font with Chinese characters on this system: install fonts-noto-cjk, or use "
        "--language en");
  }
  auto surface = HeadlessSurface::Create(options.width, options.height);
  if (!surface.ok()) return surface.status();
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
  for (int i = 0; i < kSettlingFrames; ++i) {
    surface.value()->BeginFrame();
    ImGui::NewFrame();
    shell.Frame();
    ImGui::Render();
    surface.value()->EndFrame();
  }
  if (options.scope) {
    const Status has_steps = analysis::CheckHasSteps(*options.scope, shell.context().report->steps);
    if (!has_steps.ok()) return has_steps;
  }
  return Shot{surface.value()->Read(), shell.draw_log()};
}

std::string PrintShotJson(const query::Snapshot& snapshot, const ShotOptions& options,
                          const ui::DrawLog& log) {
  return PrintDrawn(
      {snapshot.name, options.width, options.height, options.language, options.theme, {}}, log);
}

}  // namespace shardscope::shell
