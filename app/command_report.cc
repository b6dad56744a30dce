#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "app/import/import_progress.h"
#include "app/import/kept_report.h"
#include "app/record/recorded_run.h"
#include "app/say.h"
#include "trace/analysis/report/report.h"
#include "trace/base/text.h"
#include "trace/bookmarks/bookmarks.h"
#include "trace/query/live_trace.h"
#include "trace/query/summary.h"

namespace shardscope::app {
namespace {

struct ReportArguments {
  std::string run;
  bool json = false;
  bool all = false;
  bool collectives = false;
  bool step_table = false;
  std::optional<analysis::Scope> scope;
  analysis::GpuDefinition definition = analysis::GpuDefinition::kExact;
};

// A recorded program has processes, sources and spans where a training has steps.
Result<std::string> RecordedReport(const ReportArguments& arguments,
                                   const analysis::Report& report) {
  const Result<RecordedRun> run = ReadRecordedRun(arguments.run);
  if (!run.ok()) return run.status();
  if (arguments.json) return AddRecordedJson(*run, analysis::PrintReportJson(report));
  return PrintRecordedText(*run, report, arguments.all ? 0 : 20) +
         analysis::PrintKernels(report.kernels);
}

Result<std::string> ReportText(const ReportArguments& arguments, const query::Snapshot& snapshot) {
  const analysis::Report report =
      analysis::MakeReport(snapshot, {.scope = arguments.scope,
                                      .every_stall = arguments.json && arguments.all,
                                      .collectives = arguments.collectives,
                                      .step_table = arguments.step_table});
  if (IsRecordedRun(snapshot.meta) && report.steps.empty()) {
    return RecordedReport(arguments, report);
  }
  if (arguments.scope) {
    const Status status = analysis::CheckHasSteps(*arguments.scope, report.steps);
    if (!status.ok()) return status;
  }
  if (arguments.json) {
    const analysis::GpuTime gpu = analysis::MeasureGpu(snapshot, arguments.definition);
    return analysis::PrintReportJson(report, &gpu);
  }
  return analysis::PrintReportText(report, arguments.all ? 0 : 10) +
         (report.step_table ? analysis::PrintStepTable(*report.step_table) : "") +
         (report.collectives ? analysis::PrintCollectives(*report.collectives) : "") +
         analysis::PrintGpuTime(analysis::MeasureGpu(snapshot, arguments.definition));
}

// A finished trace has what figures of the whole run need, but not those of some steps.
Result<query::SnapshotPtr> Read(const ReportArguments& arguments) {
  const bool whole_run =
      !arguments.scope || arguments.scope->kind == analysis::ScopeKind::kWholeRun;
  if (whole_run && !arguments.collectives) {
    Result<query::SnapshotPtr> summary = query::ReadSummary(arguments.run);
    if (!summary.ok() || *summary != nullptr) return summary;
  }
  return query::ReadSnapshot(arguments.run);
}

// As `import` makes it beforehand.
bool IsOfWholeRun(const ReportArguments& arguments) {
  return !arguments.scope && !arguments.all && !arguments.collectives && !arguments.step_table;
}

bool PrintKept(const ReportArguments& arguments) {
  if (!IsOfWholeRun(arguments)) return false;
  return PrintKeptReport(
      arguments.run, {arguments.json, arguments.definition},
      [&](std::string_view text) { arguments.json ? PrintExact(text) : Print(text); });
}

// `run`: folder or trace file of what was given as `path`.
void PrintNumBookmarks(const std::string& path, const std::string& run) {
  std::error_code ignored;
  const bool is_folder = std::filesystem::is_directory(run, ignored);
  const std::filesystem::path folder =
      is_folder ? std::filesystem::path(run)
                : std::filesystem::weakly_canonical(run, ignored).parent_path();
  const auto all = bookmarks::Read(bookmarks::FileOf(path, folder.string()));
  if (!all.ok()) return Say("shardscope report: " + all.message());
  if (all->empty()) return;
  Print(fmt::format("\n{} (shardscope bookmarks {} lists {})\n",
                    Counted(std::ssize(*all), "bookmark"), path, all->size() == 1 ? "it" : "them"));
}

Status Report(ReportArguments arguments) {
  const std::string path = arguments.run;
  SHARDSCOPE_ASSIGN_OR_RETURN(arguments.run, RunOfPath(path));
  if (path != arguments.run && IsOfWholeRun(arguments)) (void)KeepReportsOf(arguments.run);
  if (!PrintKept(arguments)) {
    const Result<query::SnapshotPtr> snapshot = Read(arguments);
    if (!snapshot.ok()) return snapshot.status();
    const Result<std::string> text = ReportText(arguments, **snapshot);
    if (!text.ok()) return text.status();
    arguments.json ? PrintExact(*text) : Print(*text);
  }
  if (!arguments.json) PrintNumBookmarks(path, arguments.run);
  return Status::Ok();
}

// Which steps the figures are of; without any of these it is DefaultScope().
void AddScopeOptions(CLI::App* command, const std::shared_ptr<ReportArguments>& arguments) {
  using analysis::ScopeKind;
  const auto set_last = [arguments](int32_t count) {
    arguments->scope = analysis::Scope{.kind = ScopeKind::kLastSteps, .count = count};
  };
  const auto set_kind = [arguments](ScopeKind kind) {
    return [arguments, kind] { arguments->scope = analysis::Scope{.kind = kind}; };
  };
  CLI::Option* steps =
      AddStepsOption(command, "--steps", "Figures of these steps: from a up to, not including, b",
                     &arguments->scope);
  CLI::Option* last =
      command->add_option_function<int32_t>("--last", set_last, "Figures of the last N steps");
  CLI::Option* change = command->add_flag_callback(
      "--since-change", set_kind(ScopeKind::kSinceChange),
      "Figures since a knob was last turned; what a run that goes on shows unless asked");
  CLI::Option* whole = command->add_flag_callback(
      "--whole-run", set_kind(ScopeKind::kWholeRun),
      "Figures of all steps; what a run that has ended shows unless asked");
  steps->excludes(last)->excludes(change)->excludes(whole);
  last->type_name("N")->check(CLI::Range(1, 1'000'000'000))->excludes(change)->excludes(whole);
  change->excludes(whole);
}

}  // namespace

void AddReportCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<ReportArguments>();
  CLI::App* command = app.add_subcommand(
      "report", "Times, exposed communication, stalls, memory and losses of a run");
  AddRunArgument(command, &arguments->run);
  command->add_flag("--json", arguments->json, "JSON with all steps, in nanoseconds and bytes");
  command->add_flag("--all", arguments->all,
                    "List all steps of them, not only the last 10; with --json also every stall");
  command->add_flag(
      "--collectives", arguments->collectives,
      "Add up all collectives, too: by kind, unit and ranks; with --json also by step");
  command->add_flag("--step-table", arguments->step_table,
                    "List all steps of them over all ranks, too, with what was changed at each");
  command
      ->add_option_function<std::string>(
          "--definition",
          [arguments](const std::string& text) {
            arguments->definition = *analysis::ParseGpuDefinition(text);
          },
          "Times of the GPU as they are, or as HolisticTraceAnalysis rounds and counts them "
          "(default exact)")
      ->check(CLI::IsMember({"exact", "hta"}));
  AddScopeOptions(command, arguments);
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("report", Report(*arguments)); });
}

}  // namespace shardscope::app
