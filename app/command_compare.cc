#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "app/commands.h"
#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/analysis/compare/comparison.h"
#include "trace/analysis/compare/gate.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

constexpr int kListedRows = 20;
constexpr double kMostPercent = 10'000;  // that B may be slower

struct CompareArguments {
  std::string a;
  std::string b;  // empty: the same run
  std::optional<analysis::Scope> steps_a;
  std::optional<analysis::Scope> steps_b;
  std::optional<double> fail_if_slower;  // share
  bool json = false;
  bool all = false;
};

Result<analysis::ComparedRun> RunOf(const std::string& path,
                                    const std::optional<analysis::Scope>& steps,
                                    query::SnapshotPtr* snapshot) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(path));
  SHARDSCOPE_ASSIGN_OR_RETURN(*snapshot, query::ReadSnapshot(run));
  if (steps) {
    SHARDSCOPE_RETURN_IF_ERROR(analysis::CheckHasSteps(*steps, analysis::Breakdowns(**snapshot)));
  }
  return analysis::ComparedRun{snapshot->get(), steps.value_or(analysis::Scope()),
                               (*snapshot)->name};
}

int ExitCodeOf(const analysis::Gate& gate) {
  if (gate.outcome == analysis::GateOutcome::kUnknown) return kNotComparable;
  return gate.outcome == analysis::GateOutcome::kFails ? kSlower : 0;
}

// With the gate's sentence last, where it is seen below any number of rows.
int PrintGated(const CompareArguments& arguments, const analysis::Comparison& comparison) {
  const double most = *arguments.fail_if_slower;
  const analysis::Gate gate = analysis::GateOf(comparison, most);
  if (arguments.json) {
    PrintExact(analysis::PrintComparisonJson(comparison, most));
  } else {
    Print(analysis::PrintComparison(comparison, arguments.all ? 0 : kListedRows));
    Print(fmt::format("\n{}\n", gate.sentence));
  }
  return ExitCodeOf(gate);
}

Result<int> Compare(const CompareArguments& arguments) {
  if (arguments.b.empty() && !arguments.steps_a && !arguments.steps_b) {
    return Status::Error(
        "give a second run, or two ranges of steps of this one with --steps-a and --steps-b");
  }
  query::SnapshotPtr snapshot_a;
  query::SnapshotPtr snapshot_b;
  SHARDSCOPE_ASSIGN_OR_RETURN(const analysis::ComparedRun a,
                              RunOf(arguments.a, arguments.steps_a, &snapshot_a));
  SHARDSCOPE_ASSIGN_OR_RETURN(
      const analysis::ComparedRun b,
      RunOf(arguments.b.empty() ? arguments.a : arguments.b, arguments.steps_b, &snapshot_b));
  const analysis::Comparison comparison = analysis::Compare(a, b);
  if (arguments.fail_if_slower) return PrintGated(arguments, comparison);
  if (arguments.json) {
    PrintExact(analysis::PrintComparisonJson(comparison));
  } else {
    Print(analysis::PrintComparison(comparison, arguments.all ? 0 : kListedRows));
  }
  return 0;
}

// "5%" or "0.05".
Result<double> ParseShare(const std::string& text) {
  double share = 0;
  char percent = 0;
  char rest = 0;
  const int read = std::sscanf(text.c_str(), "%lf%c%c", &share, &percent, &rest);
  const bool has_sign = read == 2 && percent == '%';
  if ((read != 1 && !has_sign) || !(share >= 0 && share <= kMostPercent)) {
    return Status::Error("give a share, such as 5% or 0.05");
  }
  if (has_sign) return share / 100;
  // "5" without its sign would be 500 %, which lets everything pass.
  if (share < 1) return share;
  return Status::Error(
      fmt::format("without a percent sign a share is less than 1; write {}%", share));
}

}  // namespace

void AddCompareCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command =
      app.add_subcommand("compare", "What makes one run, or range of steps, slower than another");
  command->add_option("a", arguments->a, "Run folder or trace file, or what `import` takes")
      ->required()
      ->type_name("A");
  command->add_option("b", arguments->b, "The other one; without it, A")->type_name("B");
  AddStepsOption(command, "--steps-a", "Only these steps of A: from a up to, not including, b",
                 &arguments->steps_a);
  AddStepsOption(command, "--steps-b", "Only these steps of B", &arguments->steps_b);
  command
      ->add_option_function<std::string>(
          "--fail-if-slower",
          [arguments](const std::string& text) {
            const Result<double> share = ParseShare(text);
            if (!share.ok()) {
              throw CLI::ValidationError("--fail-if-slower " + text, share.message());
            }
            arguments->fail_if_slower = *share;
          },
          fmt::format("Exit code {} if B is slower by more than this, beyond noise: a step, or a "
                      "token where steps differ in their tokens; {} if that cannot be said",
                      kSlower, kNotComparable))
      ->type_name("5%");
  command->add_flag("--json", arguments->json, "JSON, in nanoseconds and bytes");
  command->add_flag("--all", arguments->all, "List all rows, not only the dearest 20");
  command->callback([arguments, exit_code] {
    const Result<int> done = Compare(*arguments);
    *exit_code = done.ok() ? *done : EndCommand("compare", done.status());
  });
}

}  // namespace shardscope::app
