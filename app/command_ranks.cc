#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/analysis/collectives/hang.h"
#include "trace/analysis/ranks/rank_findings.h"
#include "trace/analysis/ranks/rank_grid.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

using analysis::RankFigures;
using analysis::RankFindings;
using analysis::RankGrid;

struct RanksArguments {
  std::string run;
  std::string scope;
  bool json = false;
  bool all = false;
};

Result<analysis::RankOverview> FindRanks(const query::Snapshot& snapshot,
                                         const RanksArguments& arguments) {
  analysis::Scope scope = analysis::DefaultScope(snapshot.state);
  if (!arguments.scope.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(scope, analysis::ParseScopeOption(arguments.scope));
  }
  const std::vector<analysis::StepBreakdown> steps = analysis::Breakdowns(snapshot);
  if (!arguments.scope.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(analysis::CheckHasSteps(scope, steps));
  }
  const analysis::ScopedSteps scoped = analysis::Resolve(scope, steps, snapshot.markers);
  return analysis::MakeRankOverview(
      snapshot, std::make_shared<RankGrid>(analysis::MakeRankGrid(snapshot, steps)), scoped,
      analysis::MakeFront(analysis::FrontParts(snapshot, scoped.first_timed, scoped.last)));
}

void AddRow(const std::string& name, const RankFigures& figures, analysis::TextTable* table) {
  const bool meets = figures.num_collectives > 0;
  table->Add({name, FormatDuration(figures.step_ns), FormatDuration(figures.exposed_ns),
              FormatPercent(figures.exposed_share), meets ? FormatDuration(figures.late_ns) : "",
              meets ? FormatPercent(figures.last_share()) : "",
              figures.peak_bytes > 0 ? FormatBytes(figures.peak_bytes) : ""});
}

// The median of what the group's ranks have, of memory the largest.
RankFigures MiddleOf(const RankFindings& findings, size_t group) {
  std::vector<const RankFigures*> members;
  for (const RankFigures& rank : findings.ranks) {
    if (rank.group == static_cast<int32_t>(group)) members.push_back(&rank);
  }
  const auto median = [&members](double RankFigures::*member) {
    std::vector<double> values;
    for (const RankFigures* rank : members) values.push_back(rank->*member);
    return analysis::Percentile(std::move(values), 0.5);
  };
  RankFigures middle;
  middle.step_ns = median(&RankFigures::step_ns);
  middle.exposed_ns = median(&RankFigures::exposed_ns);
  middle.exposed_share = median(&RankFigures::exposed_share);
  middle.late_ns = median(&RankFigures::late_ns);
  for (const RankFigures* rank : members) {
    middle.num_collectives += rank->num_collectives;
    middle.num_last += rank->num_last;
    middle.peak_bytes = std::max(middle.peak_bytes, rank->peak_bytes);
  }
  return middle;
}

std::string PrintRanksText(const analysis::RankOverview& ranks, bool all) {
  const RankFindings& findings = ranks.findings;
  std::string text = RankSentence(findings) + "\n";
  if (findings.ranks.empty()) return text;
  text += fmt::format("\n{}, {}\n", Counted(static_cast<int64_t>(findings.ranks.size()), "rank"),
                      ScopeWords(ranks.scope));
  analysis::TextTable table({all ? "rank" : "ranks", "step p50", "exposed p50", "of step",
                             "late by", "comes last", "peak memory"},
                            1);
  if (all) {
    for (const RankFigures& rank : findings.ranks) AddRow(std::to_string(rank.rank), rank, &table);
  } else {
    for (size_t group = 0; group < findings.groups.size(); ++group) {
      AddRow(analysis::RankList(findings.groups[group]), MiddleOf(findings, group), &table);
    }
  }
  text += table.Print();
  if (!all && findings.groups.size() < findings.ranks.size()) {
    text += "Ranks in one line are equal within noise (--all: a line a rank).\n";
  }
  return text;
}

nlohmann::json JsonOf(const RankFigures& rank) {
  return {{"rank", rank.rank},
          {"num_steps", rank.num_steps},
          {"step_ns", rank.step_ns},
          {"exposed_ns", rank.exposed_ns},
          {"exposed_share", rank.exposed_share},
          {"collectives", rank.num_collectives},
          {"came_last", rank.num_last},
          {"late_ns", rank.late_ns},
          {"last_late_ns", rank.last_late_ns},
          {"peak_bytes", rank.peak_bytes},
          {"group", rank.group}};
}

nlohmann::json JsonOf(const analysis::Straggler& straggler) {
  return {{"ranks", straggler.ranks},
          {"last_share", straggler.last_share},
          {"late_ns", straggler.late_ns},
          {"worst_step", straggler.worst_step},
          {"delay_ns_per_step", straggler.delay_ns_per_step},
          {"delay_share", straggler.delay_share},
          {"stage", straggler.stage}};
}

nlohmann::json CellsJson(const RankGrid& grid) {
  nlohmann::json cells = nlohmann::json::array();
  for (size_t rank = 0; rank < grid.ranks.size(); ++rank) {
    for (size_t step = 0; step < grid.steps.size(); ++step) {
      const analysis::RankCell& cell = grid.At(rank, step);
      if (!cell.is_finished) continue;
      cells.push_back({{"rank", grid.ranks[rank]},
                       {"step", grid.steps[step]},
                       {"step_ns", cell.step_ns},
                       {"exposed_ns", cell.exposed_ns},
                       {"collectives", cell.num_collectives},
                       {"came_last", cell.num_last},
                       {"late_ns", cell.late_ns},
                       {"last_late_ns", cell.last_late_ns},
                       {"peak_bytes", cell.peak_bytes}});
    }
  }
  return cells;
}

std::string PrintRanksJson(const analysis::RankOverview& ranks) {
  nlohmann::json json = {{"sentence", RankSentence(ranks.findings)},
                         {"scope", ScopeWords(ranks.scope)},
                         {"straggler", nullptr},
                         {"ranks", nlohmann::json::array()},
                         {"groups", ranks.findings.groups},
                         {"cells", CellsJson(*ranks.grid)}};
  if (ranks.findings.straggler) json["straggler"] = JsonOf(*ranks.findings.straggler);
  for (const RankFigures& rank : ranks.findings.ranks) json["ranks"].push_back(JsonOf(rank));
  return JsonText(json);
}

Status RunRanks(const RanksArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) return snapshot.status();
  const Result<analysis::RankOverview> ranks = FindRanks(**snapshot, arguments);
  if (!ranks.ok()) return ranks.status();
  if (arguments.json) {
    PrintExact(PrintRanksJson(*ranks));
  } else {
    Print(PrintRanksText(*ranks, arguments.all));
  }
  return Status::Ok();
}

}  // namespace

void AddRanksCommand(CLI::App& app, int* exit_code) {
  CLI::App* command =
      app.add_subcommand("ranks", "Which rank the others wait for, and which ranks are alike");
  const auto arguments = std::make_shared<RanksArguments>();
  AddRunArgument(command, &arguments->run);
  command->add_flag("--json", arguments->json,
                    "JSON in nanoseconds and bytes, with every rank in every step");
  command->add_flag("--all", arguments->all, "A line a rank, also of ranks that are alike");
  command
      ->add_option("--scope", arguments->scope,
                   "Steps that the figures are of: since-change, last-steps, whole-run, or a:b "
                   "(default: since-change while the run goes on, else whole-run)")
      ->type_name("WORD");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("ranks", RunRanks(*arguments)); });
}

}  // namespace shardscope::app
