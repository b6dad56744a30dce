#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "app/commands.h"
#include "app/import/import_progress.h"
#include "app/say.h"
#include "trace/analysis/from_start.h"
#include "trace/analysis/memory/memory.h"
#include "trace/analysis/moment/moment.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_blocks.h"
#include "trace/query/live_trace.h"

namespace shardscope::app {
namespace {

using analysis::TextTable;
using query::LiveBlock;
using query::LiveBlocks;

constexpr size_t kListedBlocks = 20;

struct BlocksArguments {
  std::string run;
  std::string at;
  std::string since;
  std::optional<int32_t> rank;
  bool json = false;
  size_t limit = kListedBlocks;  // as text
};

nlohmann::json JsonOf(const std::vector<LiveBlock>& blocks) {
  nlohmann::json json = nlohmann::json::array();
  for (const LiveBlock& block : blocks) {
    nlohmann::json& one = json.emplace_back();
    one = {{"bytes", block.bytes},
           {"category", Name(block.category)},
           {"unit", block.unit},
           {"allocated_ns", block.allocated_ns},
           {"allocated_by", block.allocated_by},
           {"freed_ns", nullptr},
           {"freed_by", block.freed_by},
           {"step", nullptr},
           {"came", block.came}};
    if (block.freed_ns >= 0) one["freed_ns"] = block.freed_ns;
    if (block.step >= 0) one["step"] = block.step;
    if (!block.stack.empty()) one["stack"] = block.stack;
  }
  return json;
}

std::string PrintBlocksJson(const query::Snapshot& snapshot, const LiveBlocks& blocks) {
  const query::BlocksQuery& asked = blocks.asked;
  nlohmann::json json = {{"rank", asked.rank},
                         {"time_ns", asked.at_ns},
                         {"from_start_ns", asked.at_ns - snapshot.start_ns},
                         {"live_bytes", blocks.live_bytes},
                         {"live", JsonOf(blocks.live)}};
  if (asked.since_ns) {
    json["since_ns"] = *asked.since_ns;
    json["came_bytes"] = blocks.came_bytes;
    json["gone_bytes"] = blocks.gone_bytes;
    json["gone"] = JsonOf(blocks.gone);
  }
  return JsonText(json);
}

// "F block0 all_gather, 3.2 ms before", of what did something at `time_ns`.
std::string DoneBy(const std::string& op, int64_t time_ns, int64_t at_ns) {
  const std::string when = time_ns > at_ns ? FormatDuration(time_ns - at_ns) + " later"
                                           : FormatDuration(at_ns - time_ns) + " before";
  return op.empty() ? when : op + ", " + when;
}

// The first line of a stack is where the program asked.
std::string AllocatedBy(const LiveBlock& block, int64_t at_ns) {
  if (IsThereFromTheStart(block)) return "there from the start";
  const std::string by =
      block.stack.empty() ? block.allocated_by : std::string(FirstLine(block.stack));
  return DoneBy(by, block.allocated_ns, at_ns);
}

std::string PrintTable(const std::vector<LiveBlock>& blocks, int64_t at_ns, size_t limit) {
  TextTable table({"category", "unit", "allocated by", "freed by", "bytes"}, 4);
  for (size_t i = 0; i < std::min(limit, blocks.size()); ++i) {
    const LiveBlock& block = blocks[i];
    table.Add({(block.came ? "+ " : "") + std::string(Name(block.category)), block.unit,
               AllocatedBy(block, at_ns),
               block.freed_ns < 0 ? "not freed" : DoneBy(block.freed_by, block.freed_ns, at_ns),
               FormatBytes(block.bytes)});
  }
  std::string text = table.Print();
  if (blocks.size() > limit) {
    text += fmt::format("  ... and {} smaller ones (--limit)\n", blocks.size() - limit);
  }
  return text;
}

std::string PrintBlocksText(const query::Snapshot& snapshot, const LiveBlocks& blocks,
                            size_t limit) {
  const query::BlocksQuery& asked = blocks.asked;
  const auto seconds = [&](int64_t time_ns) {
    return analysis::SecondsFromStart(snapshot, time_ns);
  };
  std::string text =
      fmt::format("rank {}, {} s from the start: {} live in {} blocks\n", asked.rank,
                  seconds(asked.at_ns), FormatBytes(blocks.live_bytes), blocks.live.size());
  text += PrintTable(blocks.live, asked.at_ns, limit);
  if (asked.since_ns) {
    text += fmt::format("since {} s: {} came (+ above), {} are gone\n", seconds(*asked.since_ns),
                        FormatBytes(blocks.came_bytes), FormatBytes(blocks.gone_bytes));
    if (!blocks.gone.empty()) text += PrintTable(blocks.gone, asked.at_ns, limit);
  }
  return Printable(text, "\n");
}

Result<query::BlocksQuery> QueryOf(const query::Snapshot& snapshot,
                                   const BlocksArguments& arguments) {
  const auto at_peak = analysis::BlocksAtPeak(analysis::MemoryPeaks(snapshot), arguments.rank);
  if (!at_peak && arguments.rank && snapshot.FindRank(*arguments.rank) == nullptr) {
    std::vector<std::string> ranks;
    for (const query::RankRows& rows : snapshot.ranks) ranks.push_back(std::to_string(rows.rank));
    return Status::Error(
        fmt::format("--rank {}: the run has the ranks {}", *arguments.rank, Join(ranks, ", ")));
  }
  if (!at_peak && arguments.rank) {
    return Status::Error(
        fmt::format("--rank {}: nothing was recorded of its memory", *arguments.rank));
  }
  if (!at_peak) return Status::Error("nothing was recorded of memory in this trace");
  query::BlocksQuery query = *at_peak;
  if (!arguments.at.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(query.at_ns,
                                analysis::ParseMomentOf("--at", snapshot, arguments.at));
  }
  if (!arguments.since.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(query.since_ns,
                                analysis::ParseMomentOf("--since", snapshot, arguments.since));
    if (*query.since_ns > query.at_ns) {
      return Status::Error(fmt::format("--since {} is after the moment itself ({}): swap them",
                                       arguments.since,
                                       arguments.at.empty() ? "the peak" : arguments.at));
    }
  }
  return query;
}

Status RunBlocks(const BlocksArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(arguments.run));
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::SnapshotPtr snapshot, query::ReadSnapshot(run));
  SHARDSCOPE_ASSIGN_OR_RETURN(const query::BlocksQuery query, QueryOf(*snapshot, arguments));
  SHARDSCOPE_ASSIGN_OR_RETURN(const LiveBlocks blocks, query::ReadLiveBlocks(run, query));
  if (arguments.json) {
    PrintExact(PrintBlocksJson(*snapshot, blocks));
  } else {
    Print(PrintBlocksText(*snapshot, blocks, arguments.limit));
  }
  return Status::Ok();
}

}  // namespace

void AddBlocksCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "blocks", "What a rank's memory was made of at one moment: who allocated it, who frees it");
  const auto arguments = std::make_shared<BlocksArguments>();
  AddRunArgument(command, &arguments->run);
  command
      ->add_option("--at", arguments->at,
                   "12.5s from the start of the run, or step=3+4.2ms from the start of a step; "
                   "without it: the highest peak")
      ->type_name("TIME");
  command
      ->add_option("--since", arguments->since,
                   "An earlier moment: which blocks came since then, and which are gone")
      ->type_name("TIME");
  command->add_option("--rank", arguments->rank, "Default: the one that takes most")
      ->type_name("N");
  command
      ->add_option("--limit", arguments->limit,
                   fmt::format("Listed blocks as text, default {}", kListedBlocks))
      ->check(CLI::Range(0, kMostListed))
      ->type_name("N");
  command->add_flag("--json", arguments->json, "All blocks, in nanoseconds and bytes");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("blocks", RunBlocks(*arguments)); });
}

}  // namespace shardscope::app
