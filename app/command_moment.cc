#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/analysis/from_start.h"
#include "trace/analysis/memory/memory_change.h"
#include "trace/analysis/moment/moment.h"
#include "trace/analysis/moment/moment_words.h"
#include "trace/base/json_line.h"
#include "trace/base/signed_text.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

using analysis::MemoryChange;
using analysis::RankMoment;
using analysis::RunningOp;

struct MomentArguments {
  std::string run;
  std::string at;
  std::string since;
  bool json = false;
};

nlohmann::json JsonOfOps(const std::vector<RunningOp>& ops) {
  nlohmann::json json = nlohmann::json::array();
  for (const RunningOp& running : ops) {
    nlohmann::json& op = json.emplace_back();
    op = {{"name", running.op->name},         {"kind", running.op->kind},
          {"op_run", running.op_run.value()}, {"start_ns", running.started_ns},
          {"end_ns", running.ended_ns},       {"done", running.done}};
    if (running.awaited_rank >= 0) op["awaited_rank"] = running.awaited_rank;
  }
  return json;
}

// As RankMoment and MemoryChange have them.
void AddParts(const analysis::CategoryBytes& categories,
              const std::map<std::pair<query::MemoryCategory, std::string>, int64_t>& units,
              nlohmann::json* json) {
  nlohmann::json& of_categories = (*json)["categories"] = nlohmann::json::object();
  for (size_t at = 0; at < categories.size(); ++at) {
    if (categories[at] == 0) continue;
    of_categories[Name(static_cast<query::MemoryCategory>(at))] = categories[at];
  }
  nlohmann::json& of_units = (*json)["units"] = nlohmann::json::array();
  for (const auto& [key, bytes] : units) {
    of_units.push_back({{"category", Name(key.first)}, {"unit", key.second}, {"bytes", bytes}});
  }
}

nlohmann::json JsonOfMemory(const RankMoment& moment) {
  nlohmann::json json;
  json["live_bytes"] = moment.live_bytes;
  AddParts(moment.live, moment.live_of_units, &json);
  return json;
}

nlohmann::json JsonOf(const RankMoment& moment) {
  nlohmann::json json = {{"rank", moment.rank},
                         {"state", Name(moment.state)},
                         {"words", MomentSentence(moment, analysis::EnglishMomentWords())},
                         {"step", nullptr},
                         {"compute", JsonOfOps(moment.compute)},
                         {"copies", JsonOfOps(moment.copies)},
                         {"communication", JsonOfOps(moment.communication)},
                         {"hidden", moment.hides()},
                         {"exposed", moment.exposes()},
                         {"stall", nullptr},
                         {"memory", nullptr}};
  if (moment.step >= 0) json["step"] = moment.step;
  if (moment.stall) {
    const analysis::Stall& stall = *moment.stall;
    json["stall"] = {{"cause", Name(stall.cause)},
                     {"start_ns", stall.start_ns},
                     {"end_ns", stall.end_ns},
                     {"op", stall.op_name},
                     {"waits_for", stall.blocking_name}};
  }
  if (moment.has_memory) json["memory"] = JsonOfMemory(moment);
  return json;
}

nlohmann::json JsonOf(const MemoryChange& change) {
  nlohmann::json json = {{"rank", change.rank}, {"bytes", change.bytes}};
  AddParts(change.categories, change.units, &json);
  return json;
}

// `since`: null: the moment alone.
std::string PrintMomentJson(const query::Snapshot& snapshot, const analysis::Moment& moment,
                            const analysis::Moment* since) {
  nlohmann::json json = {{"time_ns", moment.time_ns},
                         {"from_start_ns", moment.time_ns - snapshot.start_ns},
                         {"ranks", nlohmann::json::array()}};
  for (const RankMoment& rank : moment.ranks) json["ranks"].push_back(JsonOf(rank));
  if (since != nullptr) {
    json["since_ns"] = since->time_ns;
    json["memory_changes"] = nlohmann::json::array();
    for (const MemoryChange& change : MemoryChanges(*since, moment)) {
      json["memory_changes"].push_back(JsonOf(change));
    }
  }
  return JsonText(json);
}

// "unsharded_parameter 4.2 MB (block1 2.1 MB, block2 2.1 MB)".
std::string CategoryText(const RankMoment& moment, query::MemoryCategory category) {
  std::string units;
  for (const auto& [key, bytes] : moment.live_of_units) {
    if (key.first != category || key.second.empty()) continue;
    units += (units.empty() ? "" : ", ") + key.second + " " + FormatBytes(bytes);
  }
  return fmt::format("{} {}{}", Name(category),
                     FormatBytes(moment.live[static_cast<size_t>(category)]),
                     units.empty() ? "" : " (" + units + ")");
}

std::string PrintMomentText(const query::Snapshot& snapshot, const analysis::Moment& moment) {
  std::string text = analysis::SecondsFromStart(snapshot, moment.time_ns) + " s from the start";
  // As --at counts it: a step begins with its first rank, while others may be in the one before.
  const auto newest = std::ranges::max_element(moment.ranks, {}, &RankMoment::step);
  if (newest != moment.ranks.end() && newest->step >= 0) {
    const Result<Interval> times = analysis::TimesOfStep(snapshot, newest->step);
    const int64_t start_ns = times.ok() ? times->start_ns : newest->step_start_ns;
    text += fmt::format(", step {} + {} ms", newest->step,
                        analysis::ExactMs(moment.time_ns - start_ns));
  }
  text += "\n";
  for (const RankMoment& rank : moment.ranks) {
    text += MomentSentence(rank, analysis::EnglishMomentWords()) + "\n";
    if (!rank.has_memory) continue;
    text += fmt::format("  live {}\n", FormatBytes(rank.live_bytes));
    for (size_t at = 0; at < rank.live.size(); ++at) {
      if (rank.live[at] == 0) continue;
      text += "    " + CategoryText(rank, static_cast<query::MemoryCategory>(at)) + "\n";
    }
  }
  return Printable(text, "\n");
}

std::string Signed(int64_t bytes) { return SignedText(static_cast<double>(bytes), FormatBytes); }

// What came and what went, in all, by category and by unit.
std::string PrintChangesText(const query::Snapshot& snapshot, const analysis::Moment& since,
                             const analysis::Moment& moment) {
  std::string text = fmt::format("live then, beside {} s from the start\n",
                                 analysis::SecondsFromStart(snapshot, since.time_ns));
  for (const MemoryChange& change : MemoryChanges(since, moment)) {
    text += fmt::format("  rank {}: {}\n", change.rank, Signed(change.bytes));
    for (size_t at = 0; at < change.categories.size(); ++at) {
      const auto category = static_cast<query::MemoryCategory>(at);
      std::string units;
      bool is_changed = change.categories[at] != 0;
      for (const auto& [key, bytes] : change.units) {
        if (key.first != category) continue;
        is_changed = true;  // as much came as went
        if (key.second.empty()) continue;
        units += (units.empty() ? "" : ", ") + key.second + " " + Signed(bytes);
      }
      if (!is_changed) continue;
      text += fmt::format("    {} {}{}\n", Name(category), Signed(change.categories[at]),
                          units.empty() ? "" : " (" + units + ")");
    }
  }
  return Printable(text, "\n");
}

Result<analysis::Moment> MomentOf(const query::SnapshotPtr& snapshot, std::string_view option,
                                  const std::string& text) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const int64_t time_ns,
                              analysis::ParseMomentOf(option, *snapshot, text));
  return analysis::Moments(snapshot, {time_ns, time_ns + 1}).At(time_ns);
}

Status RunMoment(const MomentArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  const Result<query::SnapshotPtr> snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) return snapshot.status();
  SHARDSCOPE_ASSIGN_OR_RETURN(const analysis::Moment moment,
                              MomentOf(*snapshot, "--at", arguments.at));
  std::optional<analysis::Moment> since;
  if (!arguments.since.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(since, MomentOf(*snapshot, "--since", arguments.since));
  }
  if (arguments.json) {
    PrintExact(PrintMomentJson(**snapshot, moment, since ? &*since : nullptr));
  } else {
    Print(PrintMomentText(**snapshot, moment));
    if (since) Print(PrintChangesText(**snapshot, *since, moment));
  }
  return Status::Ok();
}

}  // namespace

void AddMomentCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "moment", "What every rank does at one time of a run, in words, and what is live then");
  const auto arguments = std::make_shared<MomentArguments>();
  AddRunArgument(command, &arguments->run);
  command
      ->add_option("--at", arguments->at,
                   "12.5s from the start of the run, or step=3+4.2ms from the start of a step")
      ->required()
      ->type_name("TIME");
  command
      ->add_option("--since", arguments->since,
                   "Another moment: what has become live since then and what has gone, by category "
                   "and unit")
      ->type_name("TIME");
  command->add_flag("--json", arguments->json,
                    "JSON in nanoseconds and bytes, with ids of op runs");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("moment", RunMoment(*arguments)); });
}

}  // namespace shardscope::app
