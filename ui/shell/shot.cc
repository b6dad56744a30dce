#include "ui/shell/shot.h"

#include <fmt/format.h>
#include <imgui.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <variant>

#include "trace/analysis/changes.h"
#include "trace/analysis/moment/moment.h"
#include "trace/base/text.h"
#include "trace/base/time.h"
#include "trace/base/units.h"
#include "trace/query/step_times.h"
#include "ui/panel_ids.h"
#include "ui/panel_list.h"
#include "ui/shell/backend/gui.h"
#include "ui/shell/backend/headless.h"
#include "ui/shell/backend/svg.h"
#include "ui/shell/drawn_json.h"
#include "ui/shell/drawn_text.h"
#include "ui/shell/panel_windows.h"
#include "ui/shell/shell.h"
#include "ui/shell/view_controller.h"
#include "ui/timeline/axis.h"
#include "ui/timeline/link_place.h"
#include "ui/whole_run.h"

namespace shardscope::shell {
namespace {

// Docking, layout and the panels' own measuring settle within three frames; the rest is room.
constexpr int kSettlingFrames = 6;

constexpr int64_t kMostAnimatedPixels = 1'000'000'000;  // some minutes
constexpr int64_t kFrameNs = 100 * kNsPerMs;            // where no speed is asked for
constexpr int64_t kMostFrameNs = 60 * kNsPerSecond;     // what the format takes
constexpr int64_t kLeastFrameNs = 10 * kNsPerMs;        // browsers show shorter ones for longer

// A picture of all ranks, collectives or bookmarks is.
bool MadeOfAllRows(std::string_view panel) {
  return std::ranges::any_of(ui::kPanelList, [&](const ui::PanelInfo& info) {
    return info.id == panel && info.rows == ui::PanelRows::kAllRows;
  });
}

// The default window, drawn without a display.
class Stage {
 public:
  static Result<std::unique_ptr<Stage>> Create(query::SnapshotPtr snapshot,
                                               const ShotOptions& options) {
    std::unique_ptr<Stage> stage(new Stage());
    if (options.language == ui::Language::kChinese && !stage->gui_.fonts().has_cjk) {
      return Status::Error(
          "no font with Chinese characters on this system: install fonts-noto-cjk, or use "
          "--language en");
    }
    if (options.format != ShotFormat::kPng) {
      stage->surface_ = std::make_unique<NullSurface>(options.width, options.height);
    } else {
      SHARDSCOPE_ASSIGN_OR_RETURN(auto surface,
                                  HeadlessSurface::Create(options.width, options.height));
      stage->pixels_ = surface.get();
      stage->surface_ = std::move(surface);
    }
    ShellOptions shell_options;
    shell_options.settings.language = options.language;
    shell_options.settings.theme = options.theme;
    shell_options.settings.scale = options.scale;
    shell_options.program_folder = options.program_folder;
    shell_options.headless = true;
    shell_options.log_drawing = true;
    stage->shell_.emplace(std::move(shell_options), stage->gui_.fonts().fonts);
    stage->shell_->OpenSnapshot(std::move(snapshot));
    if (!options.opened.empty()) stage->shell_->ReadBookmarks(options.opened);
    return stage;
  }

  Shell& shell() { return *shell_; }
  // Of the frame that was drawn last; not of a stage for an SVG.
  Image Read() { return pixels_->Read(); }

  // A frame more, as SVG.
  std::string DrawSvg(const std::string& title) {
    DrawSharpEdges(true);
    Draw(1);
    return SvgOf(*ImGui::GetDrawData(), title);
  }

  // Likewise, its texts.
  std::string DrawTexts() {
    DrawSharpEdges(true);
    ui::DrawLog widgets(true);
    shell_->LogWidgets(&widgets);
    Draw(1);
    shell_->LogWidgets(nullptr);
    return PrintTexts(WrittenTextsOf(*ImGui::GetDrawData()),
                      RemarksOf(widgets, shell_->context().language));
  }

  void Draw(int frames) {
    for (int i = 0; i < frames; ++i) {
      surface_->BeginFrame();
      ImGui::NewFrame();
      shell_->Frame();
      ImGui::Render();
      surface_->EndFrame();
    }
  }

 private:
  Stage() = default;

  Gui gui_;
  std::unique_ptr<Surface> surface_;
  HeadlessSurface* pixels_ = nullptr;
  std::optional<Shell> shell_;
};

// What the panel lists that is asked for, or else what was searched or measured.
Result<std::string> CsvOf(const Shell& shell, const ShotOptions& options) {
  std::string panel = options.panel;
  if (panel.empty()) {
    panel = !options.search.empty() ? ui::panel_ids::kSearch
            : options.area          ? ui::panel_ids::kDetails
                                    : "";
  }
  const ui::TableMaker make = shell.TableOf(panel);
  if (make != nullptr) return PrintCsv(make());
  std::string asked = panel.empty() ? "" : fmt::format("--panel {}: ", panel);
  std::vector<std::string> names;
  for (const PanelWindow& window : PanelWindows()) {
    if (!window.has_table) continue;
    if (window.id == panel) asked += "it lists nothing here; ";
    names.emplace_back(window.id);
  }
  return Status::Error(
      fmt::format("{}a CSV is of one of the tables: --panel {}", asked, Join(names, ", ")));
}

// What runs at this moment, on the first rank where anything does; else nothing.
ui::SelectOp OpAt(const analysis::Moment& moment) {
  for (const analysis::RankMoment& rank : moment.ranks) {
    for (const auto* ops : {&rank.communication, &rank.compute, &rank.copies}) {
      if (!ops->empty()) return {ops->front().op_run, rank.rank};
    }
  }
  return {};
}

// The lens at a time of `moments`. What is described beside it is of that time, too, unless
// something else was asked for.
void SeekLens(const analysis::Moments& moments, int64_t at_ns, const ShotOptions& options,
              Shell* shell) {
  shell->Post(ui::SeekLens{at_ns});
  const bool is_chosen =
      options.area || (options.link && (options.link->HasOp() || !options.link->work.empty() ||
                                        options.link->area));
  if (!is_chosen) shell->Post(OpAt(moments.At(at_ns)));
}

// The time lens at `options.at`.
Status SetLens(const query::SnapshotPtr& snapshot, const ShotOptions& options, Shell* shell) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t at_ns,
                              analysis::ParseMomentOf("--at", *snapshot, options.at));
  const int32_t step = analysis::FinishedStepAt(*snapshot, at_ns);
  // In no finished step: in all of the run.
  const ui::View whole = ui::WholeRun(*snapshot);
  if (step < 0) shell->Post(ui::SetView{whole.start_ns, whole.end_ns});
  shell->Post(ui::OpenLens{step});
  SeekLens(analysis::Moments(snapshot, {at_ns, at_ns + 1}), at_ns, options, shell);
  return Status::Ok();
}

// Posts what the options ask for.
Status SetStage(const query::SnapshotPtr& snapshot, const ShotOptions& options, Shell* shell) {
  shell->ShowStep(options.step);
  if (options.link) SHARDSCOPE_RETURN_IF_ERROR(shell->ShowLink(*options.link));
  if (options.scope) shell->Post(ui::SetScope{options.scope});
  if (options.compare) shell->Post(*options.compare);
  if (options.area) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const analysis::AreaQuery area,
                                analysis::ResolveArea(*snapshot, *options.area, {}));
    shell->Post(ui::SelectArea{area});
    if (options.step < 0) shell->Post(ui::FitSelection{});
  }
  if (!options.search.empty()) {
    shell->Post(ui::ShowSearch{true});
    shell->Post(ui::SearchFor{options.search});
  }
  if (options.plan) shell->Post(ui::ShowPlan{});
  if (options.beside) shell->Post(ui::ShowBeside{});
  if (options.critical_path) shell->Post(ui::ShowCriticalPath{});
  if (!options.at.empty()) SHARDSCOPE_RETURN_IF_ERROR(SetLens(snapshot, options, shell));
  for (const ui::Command& command : options.commands) shell->Post(command);
  // Each of the above may bring another one to the front.
  if (!options.panel.empty()) shell->Post(ui::FocusPanel{options.panel});
  return Status::Ok();
}

Status CheckStep(const query::Snapshot& snapshot, int32_t step) {
  return step < 0 ? Status::Ok() : analysis::TimesOfStep(snapshot, step).status();
}

Result<int32_t> StepToAnimate(const query::Snapshot& snapshot, int32_t step) {
  if (step >= 0) return step;
  if (snapshot.ranks.empty() || snapshot.ranks.front().steps.empty()) {
    return Status::Error("this trace has no finished step that could be played");
  }
  return int32_t{snapshot.ranks.front().steps.back().step};
}

}  // namespace

std::optional<std::vector<query::TimeRange>> TimesOfShot(const query::Snapshot& summary,
                                                         const ShotOptions& options) {
  const bool whole_run = !options.scope || options.scope->kind == analysis::ScopeKind::kWholeRun;
  const bool whole_panel = MadeOfAllRows(options.panel) || options.format == ShotFormat::kCsv ||
                           options.compare.has_value();
  const bool whole_steps = options.plan || options.critical_path;
  if (!whole_run || whole_panel || !options.search.empty() || !options.at.empty() || whole_steps ||
      !options.commands.empty()) {
    return std::nullopt;
  }
  ui::View view = InitialView(summary, options.step);
  if (options.link) {
    // A summary has no ops.
    if (options.link->HasOp() || !options.link->work.empty()) return std::nullopt;
    if (options.link->scope || !options.link->search.empty()) return std::nullopt;
    const auto place = timeline::PlaceOf(summary, *options.link);
    if (std::holds_alternative<ui::LinkError>(place)) return std::nullopt;
    if (const auto& shown = std::get<timeline::LinkPlace>(place).shown) {
      view = Inside({summary.start_ns, summary.end_ns, summary.end_ns},
                    {shown->start_ns, shown->end_ns});
    } else if (options.link->step) {
      view = InitialView(summary, *options.link->step);
    }
  }
  std::vector<query::TimeRange> times = {{view.start_ns, view.end_ns}};
  if (options.area) {
    const Result<analysis::AreaQuery> area = analysis::ResolveArea(summary, *options.area, {});
    if (!area.ok()) return times;  // an error of the picture
    const timeline::Range fit = timeline::FitWithMargin({area->time.start_ns, area->time.end_ns});
    times.push_back({fit.start_ns, fit.end_ns});
  }
  const std::vector<analysis::StepBreakdown> steps = analysis::Breakdowns(summary);
  const auto effects = analysis::EffectsOfChanges(steps, summary.markers);
  if (!effects.empty() && effects.back().has_both()) {
    const analysis::ChangeEffect& newest = effects.back();
    const auto compared = query::TimesOfSteps(summary, newest.first, newest.end - 1);
    if (compared) times.push_back({compared->start_ns, compared->end_ns});
  }
  return times;
}

std::vector<std::string> PanelNames() {
  std::vector<std::string> names;
  for (const PanelWindow& panel : PanelWindows()) names.emplace_back(panel.id);
  return names;
}

Result<Shot> TakeShot(query::SnapshotPtr snapshot, const ShotOptions& options) {
  SHARDSCOPE_RETURN_IF_ERROR(CheckStep(*snapshot, options.step));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> stage, Stage::Create(snapshot, options));
  SHARDSCOPE_RETURN_IF_ERROR(SetStage(snapshot, options, &stage->shell()));
  stage->Draw(kSettlingFrames);
  if (const auto& scope = stage->shell().context().focus.scope) {
    const Status has_steps =
        analysis::CheckHasSteps(*scope, stage->shell().context().report->steps);
    if (!has_steps.ok()) return has_steps;
  }
  const auto& compared = stage->shell().context().compare.made;
  if (compared != nullptr && !compared->error.empty()) return Status::Error(compared->error);
  Shot shot;
  switch (options.format) {
    case ShotFormat::kPng:
      shot.image = stage->Read();
      break;
    case ShotFormat::kSvg:
      shot.text = stage->DrawSvg("Shardscope: " + snapshot->name);
      break;
    case ShotFormat::kCsv: {
      SHARDSCOPE_ASSIGN_OR_RETURN(shot.text, CsvOf(stage->shell(), options));
      break;
    }
    case ShotFormat::kText:
      shot.text = stage->DrawTexts();
  }
  shot.log = stage->shell().draw_log();
  return shot;
}

Status TakeAnimation(query::SnapshotPtr snapshot, const ShotOptions& options,
                     const Animation& animation, const FrameSink& sink) {
  if (animation.frames < 2 || animation.frames > kMostFrames) {
    return Status::Error(
        fmt::format("--frames {}: give a number from 2 to {}", animation.frames, kMostFrames));
  }
  const int64_t pixels = int64_t{options.width} * options.height * animation.frames;
  if (pixels > kMostAnimatedPixels) {
    return Status::Error(fmt::format(
        "{} frames of {}x{} are {} million pixels, and an animation has up to {}: ask for fewer "
        "--frames or a smaller --size",
        animation.frames, options.width, options.height, pixels / 1'000'000,
        kMostAnimatedPixels / 1'000'000));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const int32_t step, StepToAnimate(*snapshot, options.step));
  SHARDSCOPE_ASSIGN_OR_RETURN(const Interval times, analysis::TimesOfStep(*snapshot, step));
  const int64_t length_ns = times.end_ns - times.start_ns;
  const int64_t frame_ns =
      animation.slowness == 0 ? kFrameNs : length_ns / animation.frames * animation.slowness;
  if (frame_ns < kLeastFrameNs || frame_ns > kMostFrameNs) {
    return Status::Error(fmt::format(
        "--speed 1/{}: {} frames of a step of {} would be shown for {} each, and a frame may last "
        "10 ms to "
        "60 s: ask for another --speed or number of --frames",
        animation.slowness, animation.frames, FormatDuration(length_ns), FormatDuration(frame_ns)));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::unique_ptr<Stage> stage, Stage::Create(snapshot, options));
  SHARDSCOPE_RETURN_IF_ERROR(SetStage(snapshot, options, &stage->shell()));
  stage->shell().Post(ui::OpenLens{step});
  stage->Draw(kSettlingFrames);
  SHARDSCOPE_RETURN_IF_ERROR(sink.begin(frame_ns));
  const analysis::Moments moments(snapshot, times);
  for (int frame = 0; frame < animation.frames; ++frame) {
    const int64_t at_ns = times.start_ns + length_ns * frame / animation.frames;
    SeekLens(moments, at_ns, options, &stage->shell());
    // What one asks for the next one draws, and what is selected then takes its room in one more.
    stage->Draw(3);
    SHARDSCOPE_RETURN_IF_ERROR(sink.take(stage->Read()));
  }
  return Status::Ok();
}

std::string PrintShotJson(const query::Snapshot& snapshot, const ShotOptions& options,
                          const ui::DrawLog& log) {
  return PrintDrawn(
      {snapshot.name, options.width, options.height, options.language, options.theme, {}}, log);
}

}  // namespace shardscope::shell
