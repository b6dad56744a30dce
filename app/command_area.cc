#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/analysis/find/area.h"
#include "trace/analysis/names.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

using analysis::Area;
using analysis::AreaCause;
using analysis::AreaRank;
using analysis::TextTable;

constexpr size_t kListedNames = 20;
constexpr size_t kAreaNameColumns = 60;
constexpr size_t kBarColumns = 40;

struct AreaArguments {
  std::string run;
  std::string from;
  std::string to;
  std::optional<int32_t> step;
  std::vector<int32_t> ranks;
  bool json = false;
  size_t limit = kListedNames;  // of names, as text
};

nlohmann::json JsonOf(const analysis::AreaTime& time) {
  return {{"union_ns", time.union_ns}, {"sum_ns", time.sum_ns}};
}

nlohmann::json JsonOf(const std::vector<AreaCause>& causes) {
  nlohmann::json json = nlohmann::json::array();
  for (const AreaCause& cause : causes) {
    json.push_back({{"cause", analysis::Name(cause.cause)},
                    {"idle_ns", cause.idle_ns},
                    {"exposed_ns", cause.exposed_ns}});
  }
  return json;
}

nlohmann::json JsonOf(const AreaRank& rank) {
  return {{"rank", rank.rank},
          {"compute", JsonOf(rank.compute)},
          {"communication", JsonOf(rank.communication)},
          {"copy", JsonOf(rank.copy)},
          {"overlap_ns", rank.overlap_ns},
          {"exposed_ns", rank.exposed_ns},
          {"exposed_copy_ns", rank.exposed_copy_ns},
          {"idle_ns", rank.idle_ns},
          {"unexplained_idle_ns", rank.unexplained_ns()},
          {"count", rank.count},
          {"causes", JsonOf(rank.causes)}};
}

std::string PrintAreaJson(const Area& area) {
  nlohmann::json json = {
      {"start_ns", area.query.time.start_ns}, {"end_ns", area.query.time.end_ns},
      {"length_ns", area.length_ns()},        {"complete", area.complete},
      {"ranks", nlohmann::json::array()},     {"causes", JsonOf(SumOfCauses(area.ranks))},
      {"names", nlohmann::json::array()},     {"durations", nlohmann::json::array()}};
  for (const AreaRank& rank : area.ranks) json["ranks"].push_back(JsonOf(rank));
  for (const analysis::AreaName& row : area.names) {
    json["names"].push_back({{"what", Name(row.what)},
                             {"name", row.name},
                             {"kind", row.kind},
                             {"count", row.count},
                             {"sum_ns", row.sum_ns},
                             {"p50_ns", row.duration_ns.p50},
                             {"p95_ns", row.duration_ns.p95},
                             {"max_ns", row.longest_ns}});
  }
  for (const analysis::AreaBucket& bucket : area.histogram) {
    json["durations"].push_back(
        {{"from_ns", bucket.from_ns}, {"to_ns", bucket.to_ns}, {"count", bucket.count}});
  }
  return JsonText(json);
}

std::string PrintRanks(const Area& area) {
  TextTable table(
      {"rank", "compute", "exposed", "exposed copy", "idle", "communication", "copy", "count"}, 1);
  for (const AreaRank& rank : area.ranks) {
    const auto part = [&](int64_t time_ns) {
      return fmt::format(
          "{} {:>4}", FormatDuration(time_ns),
          FormatPercent(static_cast<double>(time_ns) / static_cast<double>(area.length_ns())));
    };
    table.Add({std::to_string(rank.rank), part(rank.compute.union_ns), part(rank.exposed_ns),
               part(rank.exposed_copy_ns), part(rank.idle_ns),
               FormatDuration(rank.communication.union_ns), FormatDuration(rank.copy.union_ns),
               std::to_string(rank.count)});
  }
  return table.Print();
}

// Of all ranks; empty where no stall is known.
std::string PrintCauses(const Area& area) {
  int64_t unexplained_ns = 0;
  for (const AreaRank& rank : area.ranks) unexplained_ns += rank.unexplained_ns();
  TextTable table({"why", "idle", "exposed"}, 1);
  for (const AreaCause& cause : SumOfCauses(area.ranks)) {
    std::string why(analysis::Name(cause.cause));
    std::replace(why.begin(), why.end(), '_', ' ');
    table.Add({why, FormatDuration(cause.idle_ns), FormatDuration(cause.exposed_ns)});
  }
  if (table.size() == 0) return "";
  if (unexplained_ns > 0) table.Add({"no stall", FormatDuration(unexplained_ns)});
  return "\n" + table.Print();
}

std::string PrintNames(const Area& area, size_t limit) {
  if (area.names.empty() || limit == 0) return "";
  TextTable table({"name", "kind", "count", "sum", "p50", "p95", "max"}, 2);
  for (const analysis::AreaName& row : area.names) {
    if (table.size() == limit) break;
    table.Add({Shortened(Printable(row.name), kAreaNameColumns), Printable(row.kind),
               std::to_string(row.count), FormatDuration(row.sum_ns),
               FormatDuration(row.duration_ns.p50), FormatDuration(row.duration_ns.p95),
               FormatDuration(row.longest_ns)});
  }
  std::string text = "\n" + table.Print();
  const size_t left_out = area.names.size() - table.size();
  if (left_out > 0) text += fmt::format("  and {} shorter (--limit N lists more)\n", left_out);
  return text;
}

std::string PrintHistogram(const Area& area) {
  int64_t most = 0;
  for (const analysis::AreaBucket& bucket : area.histogram) most = std::max(most, bucket.count);
  if (most == 0) return "";
  std::string text = fmt::format("\n  {:>8}  {:>8}\n", "takes", "count");
  for (const analysis::AreaBucket& bucket : area.histogram) {
    const double share = static_cast<double>(bucket.count) / static_cast<double>(most);
    const auto columns = static_cast<size_t>(std::ceil(share * kBarColumns));
    text += fmt::format("  {:>8}  {:>8}{}\n", FormatDuration(bucket.from_ns), bucket.count,
                        columns == 0 ? "" : "  " + std::string(columns, '#'));
  }
  return text;
}

std::string PrintAreaText(const query::Snapshot& snapshot, const Area& area, size_t limit) {
  int64_t count = 0;
  for (const AreaRank& rank : area.ranks) count += rank.count;
  return fmt::format("{}, from {} to {} of the run, {}, {}{}\n\n", FormatDuration(area.length_ns()),
                     FormatDuration(area.query.time.start_ns - snapshot.start_ns),
                     FormatDuration(area.query.time.end_ns - snapshot.start_ns),
                     Counted(static_cast<int64_t>(area.ranks.size()), "rank"), Counted(count, "op"),
                     area.complete ? "" : "; the run is still in it") +
         PrintRanks(area) + PrintCauses(area) + PrintNames(area, limit) + PrintHistogram(area);
}

// `text`: of an option; empty: not given.
Result<int64_t> TimeOf(const char* option, const std::string& text, int64_t otherwise_ns) {
  if (text.empty()) return otherwise_ns;
  if (const auto time_ns = ParseDuration(text)) return *time_ns;
  return Status::Error(fmt::format(
      "{} {}: give the time since the start of the run, such as 12.5s or 800ms", option, text));
}

Result<analysis::AreaText> AreaTextOf(const AreaArguments& arguments) {
  if (arguments.step) return analysis::AreaText{arguments.step, {}};
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t from_ns, TimeOf("--from", arguments.from, 0));
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t to_ns,
                              TimeOf("--to", arguments.to, std::numeric_limits<int64_t>::max()));
  if (from_ns < to_ns) return analysis::AreaText{std::nullopt, {from_ns, to_ns}};
  return Status::Error(
      fmt::format("--to {}: it has to be after --from {}", arguments.to, arguments.from));
}

Status RunArea(const AreaArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const analysis::AreaText text, AreaTextOf(arguments));
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) return snapshot.status();
  SHARDSCOPE_ASSIGN_OR_RETURN(const analysis::AreaQuery query,
                              ResolveArea(**snapshot, text, arguments.ranks));
  const Area area = MeasureArea(**snapshot, query);
  if (arguments.json) {
    PrintExact(PrintAreaJson(area));
  } else {
    Print(PrintAreaText(**snapshot, area, arguments.limit));
  }
  return Status::Ok();
}

}  // namespace

void AddAreaCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "area", "How the time of ranks divides between two moments, and what took how long");
  const auto arguments = std::make_shared<AreaArguments>();
  AddRunArgument(command, &arguments->run);
  CLI::Option* from = command->add_option("--from", arguments->from,
                                          "Where it begins, since the start of the run (default "
                                          "0); the _ms columns of `sql` count from "
                                          "the first op instead");
  CLI::Option* to =
      command->add_option("--to", arguments->to, "Where it ends (default: the end of the run)");
  command->add_option("--step", arguments->step, "Instead of these: all of a step")
      ->check(CLI::Range(0, std::numeric_limits<int32_t>::max()))
      ->excludes(from)
      ->excludes(to)
      ->type_name("N");
  from->type_name("12.5s");
  to->type_name("13.1s");
  command->add_option("--ranks", arguments->ranks, "Of these ranks only")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("0,1");
  command->add_flag("--json", arguments->json, "JSON in nanoseconds, with all names");
  command
      ->add_option("--limit", arguments->limit,
                   fmt::format("List the N names that took longest (default {})", kListedNames))
      ->check(CLI::Range(0, kMostListed))
      ->type_name("N");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("area", RunArea(*arguments)); });
}

}  // namespace shardscope::app
