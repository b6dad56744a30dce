#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/analysis/find/search.h"
#include "trace/analysis/from_start.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

using analysis::SearchHit;
using analysis::SearchResult;

constexpr size_t kListedHits = 20;
constexpr size_t kNameColumns = 60;

struct SearchArguments {
  std::string run;
  std::string query;
  bool json = false;
  std::optional<size_t> limit;  // of listed hits
};

nlohmann::json JsonOf(const query::Snapshot& snapshot, const SearchHit& hit) {
  nlohmann::json json = {{"name", NameOf(snapshot, hit)},
                         {"kind", KindOf(snapshot, hit)},
                         {"start_ns", hit.start_ns},
                         {"end_ns", nullptr},
                         {"rank", nullptr},
                         {"step", nullptr}};
  if (hit.has_end) json["end_ns"] = hit.end_ns;
  if (hit.rank >= 0) json["rank"] = hit.rank;
  if (hit.step != -1) json["step"] = hit.step;
  // What finds it in the trace.
  if (!hit.op_run.is_none()) json["op_run"] = hit.op_run.value();
  if (!hit.span.is_none()) json["span"] = hit.span.value();
  return json;
}

std::string PrintFoundJson(const query::Snapshot& snapshot, const std::string& query,
                           const SearchResult& found) {
  nlohmann::json json = {{"query", query},
                         {"count", found.count},
                         {"sum_ns", found.sum_ns},
                         {"p50_ns", found.duration_ns.p50},
                         {"p95_ns", found.duration_ns.p95},
                         {"hits", nlohmann::json::array()}};
  for (const SearchHit& hit : found.hits) json["hits"].push_back(JsonOf(snapshot, hit));
  return JsonText(json);
}

std::string TakesText(const SearchHit& hit) {
  if (hit.what == analysis::HitKind::kMarker) return "";
  return hit.has_end ? FormatDuration(hit.end_ns - hit.start_ns) : "not ended";
}

// Times as `moment --at`, `area --from` and the app's G take them.
std::string PrintFoundText(const query::Snapshot& snapshot, const SearchResult& found) {
  std::string text = fmt::format(
      "{}, {} in sum, p50 {}, p95 {}\n", Counted(found.count, "hit"), FormatDuration(found.sum_ns),
      FormatDuration(found.duration_ns.p50), FormatDuration(found.duration_ns.p95));
  if (found.hits.empty()) return text;
  text +=
      fmt::format("\n{:>14}  {:>9}  {:>4}  {:>5}  name\n", "from start", "takes", "rank", "step");
  for (const SearchHit& hit : found.hits) {
    text += fmt::format("{:>12} s  {:>9}  {:>4}  {:>5}  {}\n",
                        analysis::SecondsFromStart(snapshot, hit.start_ns), TakesText(hit),
                        hit.rank < 0 ? "" : std::to_string(hit.rank),
                        hit.step == -1 ? "" : std::to_string(hit.step),
                        Shortened(Printable(NameOf(snapshot, hit)), kNameColumns));
  }
  const int64_t left_out = found.count - static_cast<int64_t>(found.hits.size());
  if (left_out > 0) text += fmt::format("and {} later (--limit N lists more)\n", left_out);
  return text;
}

Status RunSearch(const SearchArguments& arguments) {
  const auto parsed = analysis::ParseSearch(arguments.query);
  if (const auto* error = std::get_if<analysis::SearchError>(&parsed)) {
    return Status::Error(analysis::SearchErrorSentence(*error));
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) return snapshot.status();
  const size_t most = arguments.limit.value_or(arguments.json ? analysis::kMostHits : kListedHits);
  const SearchResult found =
      Search(**snapshot, std::get<analysis::SearchQuery>(parsed), {.most_hits = most});
  if (found.count == 0) {
    const Status has_step = CheckHasStep(**snapshot, std::get<analysis::SearchQuery>(parsed));
    if (!has_step.ok()) return has_step;
  }
  if (arguments.json) {
    PrintExact(PrintFoundJson(**snapshot, arguments.query, found));
  } else {
    Print(PrintFoundText(**snapshot, found));
  }
  return Status::Ok();
}

}  // namespace

void AddSearchCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "search",
      "Find ops, GPU work, ranges and markers of a run: how many, and how long they took");
  const auto arguments = std::make_shared<SearchArguments>();
  AddRunArgument(command, &arguments->run);
  command
      ->add_option(
          "query", arguments->query,
          "Terms that all have to hold: a part of a name, kind:all_gather, rank:N, step:N, "
          "unit:TEXT, slower:5ms, exposed")
      ->required()
      ->type_name("QUERY");
  command->add_flag("--json", arguments->json, "JSON in nanoseconds, with the ids of all hits");
  command->footer(
      "A time of the list (0.012345 s) leads there: G in the app, moment --at, area --from.");
  command
      ->add_option("--limit", arguments->limit,
                   fmt::format("List the first N hits (default {}, with --json {}); all count",
                               kListedHits, analysis::kMostHits))
      ->check(CLI::Range(0, kMostListed))
      ->type_name("N");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("search", RunSearch(*arguments)); });
}

}  // namespace shardscope::app
