#include "app/plan_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "app/say.h"
#include "engine/config/config.h"
#include "engine/footprint/device_limits.h"
#include "engine/footprint/footprint.h"
#include "engine/footprint/largest.h"
#include "engine/footprint/memory_choices.h"
#include "engine/footprint/memory_options.h"
#include "trace/analysis/report/text_table.h"
#include "trace/base/json_line.h"
#include "trace/base/text.h"
#include "trace/base/units.h"

namespace shardscope::app {
namespace {

using footprint::Settings;

// What is said of one configuration.
struct Row {
  std::string_view kind;  // "given", "strategy" or "option"
  Settings settings;      // on top of the given ones
  std::string effect;     // on the results, of an option
  footprint::Footprint footprint;
  std::vector<footprint::Largest> largest;  // by footprint::ScalesOf(); empty without a limit
};

struct MemoryPlan {
  config::Config config;
  int64_t limit_bytes = 0;  // 0: none
  std::vector<Row> rows;
};

Result<config::Config> ReadConfig(const MemoryPlanArguments& arguments) {
  config::Config config;
  if (!arguments.values.empty()) config = config::Config::OfValues(arguments.values);
  config.Inherit();
  if (!arguments.config.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplyToml(arguments.config, &config));
  }
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, &config));
  }
  SHARDSCOPE_RETURN_IF_ERROR(footprint::ApplyFolders(&config));
  const std::string gave_way = config::SettleInherited(&config);
  SHARDSCOPE_RETURN_IF_ERROR(config.Check());
  SHARDSCOPE_RETURN_IF_ERROR(config::CheckKeysOfStrategies(config));
  config.ClearChanges();  // settled and checked as in a run, whose start this is
  SHARDSCOPE_RETURN_IF_ERROR(footprint::CheckDeviceLimits(config));
  if (!gave_way.empty()) {
    Say("settings of the run that do not go with the given ones give way: " + gave_way);
  }
  return config;
}

Result<int64_t> LimitOf(const MemoryPlanArguments& arguments, const config::Config& config) {
  if (arguments.limit.empty()) return config.GetInt("engine.memory_limit");
  const std::optional<int64_t> bytes = ParseBytes(arguments.limit);
  if (bytes && *bytes > 0) return *bytes;
  return Status::Error(
      fmt::format("--limit {}: must be a size above 0, as 2GB or 512MB", arguments.limit));
}

// With the largest that fits, where there is a limit.
Status AddRow(Row row, MemoryPlan* plan) {
  if (plan->limit_bytes > 0) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const config::Config config,
                                footprint::With(plan->config, row.settings));
    for (const std::string_view key : footprint::ScalesOf(config)) {
      row.largest.push_back(footprint::LargestThatFits(config, key, plan->limit_bytes));
    }
  }
  plan->rows.push_back(std::move(row));
  return Status::Ok();
}

Result<MemoryPlan> MakePlan(const MemoryPlanArguments& arguments) {
  MemoryPlan plan;
  SHARDSCOPE_ASSIGN_OR_RETURN(plan.config, ReadConfig(arguments));
  SHARDSCOPE_ASSIGN_OR_RETURN(plan.limit_bytes, LimitOf(arguments, plan.config));
  Row given{.kind = "given"};
  SHARDSCOPE_ASSIGN_OR_RETURN(given.footprint, footprint::FootprintOf(plan.config));
  SHARDSCOPE_RETURN_IF_ERROR(AddRow(std::move(given), &plan));
  for (footprint::MemoryChoice& choice : footprint::MemoryChoices(plan.config)) {
    Row row{.kind = choice.effect ? "option" : "strategy",
            .settings = std::move(choice.settings),
            .effect = choice.effect ? std::string(TextOf(*choice.effect)) : "",
            .footprint = std::move(choice.footprint)};
    SHARDSCOPE_RETURN_IF_ERROR(AddRow(std::move(row), &plan));
  }
  return plan;
}

std::string NameOf(const MemoryPlan& plan, const Row& row) {
  if (row.kind != "given") return footprint::TextOf(row.settings);
  return "as given (strategy=" + plan.config.Get("strategy") + ")";
}

bool IsHeld(const MemoryPlan& plan, plan::MemoryCategory category) {
  return std::ranges::any_of(plan.rows, [&](const Row& row) {
    return row.footprint.most.by_category[static_cast<size_t>(category)] > 0;
  });
}

std::string Heading(const MemoryPlan& plan) {
  std::vector<std::string> facts = {Counted(plan.config.GetInt("run.ranks"), "rank")};
  for (const char* key : {"model.layers", "model.dim", "model.seq", "train.batch",
                          "train.micro_batches", "precision.param", "preset"}) {
    facts.push_back(std::string(key) + "=" + plan.config.Get(key));
  }
  return Join(facts, ", ") + "\n";
}

// Categories at the moment of the most, which they add up to.
std::string TakesTable(const MemoryPlan& plan) {
  std::vector<plan::MemoryCategory> categories;
  for (size_t at = 0; at < plan::kNumMemoryCategories; ++at) {
    const auto category = static_cast<plan::MemoryCategory>(at);
    if (IsHeld(plan, category)) categories.push_back(category);
  }
  analysis::TextTable::Row head = {"", "in issue order", "at most"};
  for (const plan::MemoryCategory category : categories) {
    std::string name(Name(category));
    std::ranges::replace(name, '_', ' ');
    head.push_back(name);
  }
  head.emplace_back("results");
  analysis::TextTable table(head, 1);
  for (const Row& row : plan.rows) {
    analysis::TextTable::Row cells = {NameOf(plan, row), FormatBytes(row.footprint.issued_bytes),
                                      FormatBytes(row.footprint.needed_bytes())};
    for (const plan::MemoryCategory category : categories) {
      cells.push_back(FormatBytes(row.footprint.most.by_category[static_cast<size_t>(category)]));
    }
    cells.push_back(row.effect);
    table.Add(std::move(cells));
  }
  return table.Print();
}

std::string LargestTable(const MemoryPlan& plan) {
  analysis::TextTable::Row head = {"", "fits"};
  for (const std::string_view key : footprint::ScalesOf(plan.config)) head.emplace_back(key);
  analysis::TextTable table(head, 1);
  for (const Row& row : plan.rows) {
    const bool fits = row.footprint.needed_bytes() <= plan.limit_bytes;
    analysis::TextTable::Row cells = {NameOf(plan, row), fits ? "yes" : "no"};
    for (const footprint::Largest& largest : row.largest) {
      cells.push_back(largest.value == 0
                          ? "none"
                          : fmt::format("{}{}", largest.is_at_most ? ">= " : "", largest.value));
    }
    table.Add(std::move(cells));
  }
  return table.Print();
}

std::string PrintText(const MemoryPlan& plan) {
  std::string text = Heading(plan) +
                     "\nPeak of the rank that needs most; at most: in any order of execution, with "
                     "what is live then, temporaries included (slow links come near it); in issue "
                     "order: listed buffers alone, freed when the host issues that: a run takes "
                     "more\n" +
                     TakesTable(plan);
  if (plan.rows.front().footprint.has_checkpoint_copy) {
    text +=
        "other: with the copy of the state from which checkpoints are written "
        "(checkpoint.every)\n";
  }
  if (plan.limit_bytes == 0) return text;
  return text +
         fmt::format(
             "\nThe largest of each key that fits {} a rank, with the others as they "
             "are\n",
             FormatBytes(plan.limit_bytes)) +
         LargestTable(plan);
}

std::string PrintJson(const MemoryPlan& plan) {
  using Json = nlohmann::ordered_json;
  Json rows = Json::array();
  for (const Row& row : plan.rows) {
    Json by_category = Json::object();
    for (size_t at = 0; at < plan::kNumMemoryCategories; ++at) {
      by_category[std::string(Name(static_cast<plan::MemoryCategory>(at)))] =
          row.footprint.most.by_category[at];
    }
    Json one = {{"kind", row.kind},
                {"settings", row.settings},
                {"schedule", row.footprint.schedule.name},
                {"predicted_peak_bytes", row.footprint.issued_bytes},
                {"executed_bound_bytes", row.footprint.needed_bytes()},
                {"at_bound", by_category}};
    if (!row.effect.empty()) one["results"] = row.effect;
    if (plan.limit_bytes > 0) {
      one["fits"] = row.footprint.needed_bytes() <= plan.limit_bytes;
      for (size_t at = 0; at < row.largest.size(); ++at) {
        one["largest"][std::string(footprint::ScalesOf(plan.config)[at])] = row.largest[at].value;
      }
    }
    rows.push_back(std::move(one));
  }
  const Json whole = {{"limit_bytes", plan.limit_bytes}, {"rows", rows}};
  return JsonText(whole);
}

}  // namespace

Result<std::string> PrintMemoryPlan(const MemoryPlanArguments& arguments) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const MemoryPlan plan, MakePlan(arguments));
  return arguments.json ? PrintJson(plan) : PrintText(plan);
}

}  // namespace shardscope::app
