#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <variant>

#include "app/animate.h"
#include "app/import/import_progress.h"
#include "app/output_check.h"
#include "app/say.h"
#include "trace/analysis/find/search.h"
#include "trace/base/output_file.h"
#include "trace/query/live_trace.h"
#include "trace/query/summary.h"
#include "ui/link.h"
#include "ui/shell/settings.h"
#include "ui/shell/shot.h"

namespace shardscope::app {
namespace {

constexpr int kMinimumSize = 200;
constexpr int kMaximumSize = 16384;
constexpr int kMaximumPixels = 8192 * 4320;

struct AnimationArguments {
  std::string output;
  int frames = shell::Animation().frames;
  std::string speed;
};

struct ShotArguments {
  std::string run;
  std::string output;
  std::string size = "1600x900";
  std::string language = "en";
  std::string theme = "dark";
  std::string panel;
  std::string search;
  std::string area;
  std::string at;
  bool beside = false;
  bool plan = false;
  bool critical_path = false;
  AnimationArguments animation;
  float scale = 1;
  int step = -1;
  std::string scope;
  std::string with;
  std::optional<analysis::Scope> steps_a;
  std::optional<analysis::Scope> steps_b;
  bool json = false;
};

Status ParseSize(const std::string& text, shell::ShotOptions* options) {
  char rest = 0;
  if (std::sscanf(text.c_str(), "%5dx%5d%c", &options->width, &options->height, &rest) != 2 ||
      options->width < kMinimumSize || options->height < kMinimumSize ||
      options->width > kMaximumSize || options->height > kMaximumSize) {
    return Status::Error(
        fmt::format("--size {}: give width x height in pixels from {} to {}, "
                    "such as 1600x900",
                    text, kMinimumSize, kMaximumSize));
  }
  // Beyond it a software renderer takes minutes and gigabytes.
  if (options->width * options->height > kMaximumPixels) {
    return Status::Error(fmt::format(
        "--size {}: that is {} million pixels, and a picture has up to {}: choose a smaller one",
        text, options->width * options->height / 1'000'000, kMaximumPixels / 1'000'000));
  }
  return Status::Ok();
}

// Empty: `text` is the number of a step.
std::string StepError(const std::string& text) {
  const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  return digits && text.size() < 10 ? "" : "give the number of a step, from 0";
}

shell::ShotFormat FormatOf(const std::string& path) {
  const std::string ending = EndingOf(path);
  if (ending == ".svg") return shell::ShotFormat::kSvg;
  if (ending == ".txt") return shell::ShotFormat::kText;
  return ending == ".csv" ? shell::ShotFormat::kCsv : shell::ShotFormat::kPng;
}

// A name that asks for another format would be a lie.
Status CheckPictureFile(const std::string& path) {
  if (path.empty()) return Status::Ok();
  const std::string png = std::filesystem::path(path).replace_extension(".png").string();
  return CheckOutputFile(
      path, {".png", ".svg", ".csv", ".txt"},
      fmt::format("a picture is a .png or an .svg, its texts a .txt, a panel's table a .csv; call "
                  "it {}",
                  png));
}

// Of a large finished trace only the rows that the picture shows.
Result<query::SnapshotPtr> Read(const std::string& run, const shell::ShotOptions& options) {
  Result<query::SnapshotPtr> snapshot = query::ReadSummaryAround(
      run,
      [&options](const query::Snapshot& summary) { return shell::TimesOfShot(summary, options); });
  if (!snapshot.ok() || *snapshot != nullptr) return snapshot;
  return query::ReadSnapshot(run);
}

// A picture of an error would be taken for one of the hits.
Status CheckSearch(const std::string& option, const std::string& query) {
  const auto parsed = analysis::ParseSearch(query);
  const auto* error = std::get_if<analysis::SearchError>(&parsed);
  return error == nullptr ? Status::Ok() : Status::Error(option + SearchErrorSentence(*error));
}

Result<shell::ShotOptions> OptionsOf(const ShotArguments& arguments) {
  shell::ShotOptions options;
  SHARDSCOPE_RETURN_IF_ERROR(ParseSize(arguments.size, &options));
  if (!(arguments.scale >= shell::kMinimumScale && arguments.scale <= shell::kMaximumScale)) {
    return Status::Error(fmt::format("--scale {}: give a number from {} to {}", arguments.scale,
                                     shell::kMinimumScale, shell::kMaximumScale));
  }
  options.opened = arguments.run;
  options.scale = arguments.scale;
  options.panel = arguments.panel;
  options.format = FormatOf(arguments.output);
  if (!arguments.search.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckSearch("--search ", arguments.search));
  }
  options.search = arguments.search;
  options.at = arguments.at;
  options.plan = arguments.plan;
  options.critical_path = arguments.critical_path;
  options.step = arguments.step;
  if (!arguments.scope.empty()) {
    const Result<analysis::Scope> scope = analysis::ParseScope(arguments.scope);
    if (!scope.ok()) return Status::Error("--scope " + arguments.scope + ": " + scope.message());
    options.scope = *scope;
  }
  if (!arguments.area.empty()) {
    const Result<analysis::AreaText> area = analysis::ParseArea(arguments.area);
    if (!area.ok()) return Status::Error("--area " + arguments.area + ": " + area.message());
    options.area = *area;
  }
  if (arguments.language == "zh") options.language = ui::Language::kChinese;
  if (arguments.theme == "light") options.theme = ui::ThemeName::kLight;
  return options;
}

// B is imported here, where a terminal is told of it.
Status AddComparison(const ShotArguments& arguments, shell::ShotOptions* options) {
  const bool is_asked = !arguments.with.empty() || arguments.steps_a || arguments.steps_b;
  if (arguments.beside && !is_asked) {
    return Status::Error("--beside shows the steps of B: name it (--with B)");
  }
  if (arguments.beside && arguments.plan) {
    return Status::Error("--beside and --plan take the same room: leave one of them out");
  }
  if (!is_asked) return Status::Ok();
  ui::CompareWith compare{"", arguments.steps_a, arguments.steps_b};
  if (!arguments.with.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(compare.path, RunOfPath(arguments.with));
  }
  options->compare = std::move(compare);
  options->beside = arguments.beside;
  return Status::Ok();
}

Status Animate(const ShotArguments& arguments) {
  if (!arguments.output.empty() || arguments.json || !arguments.at.empty()) {
    return Status::Error("--animate goes through a whole step: leave out -o, --json and --at");
  }
  if (!arguments.with.empty() || arguments.steps_a || arguments.steps_b || arguments.beside) {
    return Status::Error(
        "--animate shows one run: leave out --with, --steps-a, --steps-b and --beside");
  }
  const Status output = CheckAnimationOutput(arguments.animation.output);
  if (!output.ok()) return Status::Error("--animate " + output.message());
  SHARDSCOPE_RETURN_IF_ERROR(CheckIsOfNoRun("--animate", arguments.animation.output));
  SHARDSCOPE_ASSIGN_OR_RETURN(const shell::ShotOptions options, OptionsOf(arguments));
  shell::Animation animation{.frames = arguments.animation.frames};
  if (!arguments.animation.speed.empty()) {
    const Result<int> slowness = ParseSlowness(arguments.animation.speed);
    if (!slowness.ok()) return Status::Error("--speed " + slowness.message());
    animation.slowness = *slowness;
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) return snapshot.status();
  return WriteAnimation(*snapshot, options, animation, arguments.animation.output);
}

Status TakeShot(const ShotArguments& arguments) {
  if (!arguments.animation.output.empty()) return Animate(arguments);
  if (arguments.output.empty() && !arguments.json) {
    return Status::Error(
        "say where the picture goes with -o FILE.png, -o FILE.svg or --animate FILE.png, where "
        "its texts go with -o FILE.txt, a panel's table with -o FILE.csv, or ask for --json");
  }
  SHARDSCOPE_RETURN_IF_ERROR(CheckPictureFile(arguments.output));
  auto linked = ui::ParseLinkedRun(arguments.run);
  if (const auto* error = std::get_if<ui::LinkError>(&linked)) {
    return Status::Error(LinkErrorText(ui::Language::kEnglish, *error));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(shell::ShotOptions options, OptionsOf(arguments));
  options.link = std::get<ui::LinkedRun>(linked).link;
  options.opened = std::get<ui::LinkedRun>(linked).path;
  if (options.link && !options.link->search.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(CheckSearch("search=", options.link->search));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run,
                              RunOfPath(std::get<ui::LinkedRun>(linked).path));
  SHARDSCOPE_RETURN_IF_ERROR(AddComparison(arguments, &options));
  const Result<query::SnapshotPtr> snapshot = Read(run, options);
  if (!snapshot.ok()) return snapshot.status();
  const auto shot = shell::TakeShot(*snapshot, options);
  if (!shot.ok()) return shot.status();
  if (options.format != shell::ShotFormat::kPng) {
    SHARDSCOPE_RETURN_IF_ERROR(WriteFile(arguments.output, shot->text));
  } else if (!arguments.output.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(shell::WritePng(shot->image, arguments.output));
  }
  if (arguments.json) {
    PrintExact(shell::PrintShotJson(**snapshot, options, shot->log));
  }
  return Status::Ok();
}

// What the picture shows of the run.
void AddViewOptions(CLI::App* command, const std::shared_ptr<ShotArguments>& arguments) {
  command
      ->add_option("--panel", arguments->panel,
                   "Brought to the front of its tabs, default timeline")
      ->check(CLI::IsMember(shell::PanelNames()));
  command
      ->add_option(
          "--with", arguments->with,
          "Another run, or what `import` takes, to compare RUN with in the panel Compare, which "
          "is shown unless --panel or --beside asks for another")
      ->type_name("B");
  AddStepsOption(command, "--steps-a", "Only these steps of RUN are compared", &arguments->steps_a);
  AddStepsOption(command, "--steps-b", "Only these steps of B, without it of RUN",
                 &arguments->steps_b);
  command
      ->add_option("--search", arguments->search,
                   "What is looked for: its hits are listed and lit (`shardscope search` says how)")
      ->type_name("QUERY");
  command
      ->add_option("--area", arguments->area,
                   "Mark and measure a stretch of time, from a up to b since the start of the run, "
                   "or a step (`shardscope area` prints the same)")
      ->type_name("a:b|N");
  command
      ->add_option("--at", arguments->at,
                   "The time lens at a moment, with what each rank does then in words: 12.5s from "
                   "the start of the run, or step=3+4.2ms")
      ->type_name("TIME");
  command->add_flag("--beside", arguments->beside,
                    "Under each lane the step of B (--with) that stands beside the one in view");
  command->add_flag("--plan", arguments->plan,
                    "Under each lane what the Schedule plans there, from what this run's ops take");
  command->add_flag("--critical-path", arguments->critical_path,
                    "The longest chain of the step over all ranks, outlined in the lanes, with its "
                    "parts added up");
  command
      ->add_option("--step", arguments->step,
                   "Show steps K-1 to K+1 (default: around the newest change of a knob, else "
                   "the last steps)")
      ->check(CLI::Validator(StepError, ""))
      ->type_name("K");
  command
      ->add_option("--scope", arguments->scope,
                   "Steps that the figures are of: since-change, last-steps, in-view, selection, "
                   "whole-run, or a:b (default: since-change while the run goes on, else "
                   "whole-run)")
      ->type_name("WORD");
}

void AddAnimationOptions(AnimationArguments* arguments, CLI::App* command) {
  CLI::Option* animate =
      command
          ->add_option("--animate", arguments->output,
                       "The time lens going through a step (--step, else the newest) as an "
                       "animated PNG, or with ffmpeg as an .mp4")
          ->type_name("FILE");
  command
      ->add_option("--frames", arguments->frames,
                   fmt::format("Pictures of the animation, 2 to {}, default {}", shell::kMostFrames,
                               shell::Animation().frames))
      ->needs(animate)
      ->type_name("N");
  command
      ->add_option("--speed", arguments->speed,
                   "Of the animation, as 1/100 of the real one (default: ten pictures a second)")
      ->needs(animate)
      ->type_name("1/N");
}

}  // namespace

void AddShotCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<ShotArguments>();
  CLI::App* command = app.add_subcommand(
      "shot",
      "The whole default window as a PNG, SVG or text, or a panel's table as CSV, without display");
  command
      ->add_option(
          "run", arguments->run,
          "Run folder or trace file, live or not; what `import` takes; or a link, RUN#step=30")
      ->required()
      ->type_name("RUN");
  command
      ->add_option(
          "-o,--output", arguments->output,
          "Where the picture goes: a .png, or an .svg whose text is text; with .txt its texts "
          "alone, in the order in which they are read; with .csv what --panel lists")
      ->type_name("FILE");
  command->add_option("--size", arguments->size, "Width x height in pixels, default 1600x900")
      ->type_name("WxH");
  command
      ->add_option("--scale", arguments->scale,
                   "Size of text and lines, default 1; 2 with twice the --size is as sharp as a "
                   "high-resolution screen")
      ->type_name("X");
  AddViewOptions(command, arguments);
  AddAnimationOptions(&arguments->animation, command);
  command->add_option("--language", arguments->language, "en or zh, default en")
      ->check(CLI::IsMember({"en", "zh"}));
  command->add_option("--theme", arguments->theme, "dark or light, default dark")
      ->check(CLI::IsMember({"dark", "light"}));
  command->add_flag("--json", arguments->json,
                    "Print what was drawn: items, texts, values, boxes in pixels");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("shot", TakeShot(*arguments)); });
}

}  // namespace shardscope::app
