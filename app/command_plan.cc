#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "app/import/import_progress.h"
#include "app/plan_memory.h"
#include "app/say.h"
#include "engine/config/config.h"
#include "engine/footprint/footprint.h"
#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/plan/uniform_model.h"
#include "engine/plan/written_schedule.h"
#include "trace/analysis/config_at.h"
#include "trace/base/text.h"
#include "trace/base/units.h"
#include "trace/query/live_trace.h"
#include "trace/query/summary.h"

namespace shardscope::app {
namespace {

struct Setting {
  std::string option;  // as typed: "--ranks"; empty: --set
  std::string key;     // empty: of a --set that has none
  std::string value;   // as text: the keys say what is allowed; without a key all that was typed
};

struct PlanArguments {
  std::vector<Setting> settings;  // in their order; later ones win
  std::string check;              // file; empty: print a schedule
  bool evaluation = false;        // that of an evaluation
  bool memory = false;            // print what it takes instead
  std::string run;                // the rest for that alone
  std::string config;
  std::string limit;
  bool json = false;
};

struct Option {
  const char* name;
  const char* key;
  const char* value;  // without it
  const char* help;
};
constexpr Option kOptions[] = {
    {"--preset", "preset", "fsdp2",
     "Whose schedule: that of PyTorch's fsdp2 or fsdp1, or double_buffer"},
    {"--units", "model.layers", "3",
     "Blocks besides the root unit; more where there are more stages, and with a key of a model as "
     "many as a run has"},
    {"--ranks", "run.ranks", "2", "Ranks that share the parameters"},
    {"--micro-batches", "train.micro_batches", "1", "Micro-batches of a step"},
};

bool IsOfModel(const Setting& setting) {
  if (setting.key == "model.path" || setting.key == "lora.path") return true;
  const config::KeyInfo* key = config::FindKey(setting.key);
  return key != nullptr && key->is_of_model;
}

// With one of those keys the schedule is that of the model that a run with them trains, also in
// what they leave open (model.layers, unit.root); without any the uniform one's.
bool IsOfModel(const PlanArguments& arguments) {
  return std::ranges::any_of(arguments.settings, [](const Setting& one) { return IsOfModel(one); });
}

// Of "key=value", spaces round the key or not.
Setting SettingOf(const std::string& typed) {
  const size_t equals = typed.find('=');
  const std::string_view key = Trim(std::string_view(typed).substr(0, equals));
  if (equals == std::string::npos || key.empty()) return {"", "", typed};
  return {"", std::string(key), typed.substr(equals + 1)};
}

// As --set takes it.
std::string TextOf(const Setting& setting) {
  return setting.key.empty() ? setting.value : setting.key + "=" + setting.value;
}

Status Apply(const Setting& setting, config::Config* config) {
  if (setting.option.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(TextOf(setting), config));
    if (config::FindKey(setting.key)->shapes_schedule || IsOfModel(setting)) return Status::Ok();
    // The others would be accepted and change nothing.
    return Status::Error(
        fmt::format("'{}' does not shape a schedule: leave it out here", setting.key));
  }
  if (config->Set(setting.key, setting.value).ok()) return Status::Ok();
  // In the words of the option that was typed, not the key's.
  return Status::Error(fmt::format("{} {}: must be {}", setting.option, setting.value,
                                   config::Allowed(*config::FindKey(setting.key))));
}

bool SaysUnits(const PlanArguments& arguments) {
  return std::any_of(arguments.settings.begin(), arguments.settings.end(),
                     [](const Setting& one) { return one.key == "model.layers"; });
}

// Of the uniform model: at least a block for each stage, unless the number of blocks was asked for.
Status SetUnits(config::Config* config) {
  const int64_t least = config->GetInt("model.layers");
  const int64_t chunks = config->GetInt("pipeline.chunks");
  const auto most = static_cast<int64_t>(config::FindKey("model.layers")->maximum);
  const int64_t enough = std::min(most, std::max(least, config->GetInt("run.ranks") * chunks));
  SHARDSCOPE_RETURN_IF_ERROR(config->Set("model.layers", std::to_string(enough)));
  SHARDSCOPE_RETURN_IF_ERROR(config->Check());
  const int stages = config::ToPolicy(*config).mesh.size(plan::MeshDimension::kPipeline);
  return config->Set("model.layers", std::to_string(std::max(least, stages * chunks)));
}

Result<config::Config> MakeConfig(const PlanArguments& arguments) {
  const bool is_uniform = !IsOfModel(arguments);
  config::Config config;
  for (const Option& option : kOptions) {
    if (!is_uniform && option.key == std::string_view("model.layers")) continue;
    SHARDSCOPE_RETURN_IF_ERROR(config.Set(option.key, option.value));
  }
  for (const Setting& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(Apply(setting, &config));
  }
  SHARDSCOPE_RETURN_IF_ERROR(footprint::ApplyFolders(&config));
  if (is_uniform && !SaysUnits(arguments)) SHARDSCOPE_RETURN_IF_ERROR(SetUnits(&config));
  SHARDSCOPE_RETURN_IF_ERROR(config.Check());
  // Stages of a pipeline, and units that take turns, cannot share one.
  const plan::Mesh mesh = config::ToPolicy(config).mesh;
  const bool may_have_root = is_uniform &&
                             config::GetPreset(config) != plan::Preset::kDoubleBuffer &&
                             mesh.size(plan::MeshDimension::kPipeline) == 1;
  if (may_have_root && !config.IsExplicit("unit.root")) {
    SHARDSCOPE_RETURN_IF_ERROR(config.Set("unit.root", "true"));
  }
  return config;
}

Result<plan::ModelDescription> ModelOf(const PlanArguments& arguments, const config::Config& config,
                                       const plan::UnitPolicy& units) {
  if (IsOfModel(arguments)) return footprint::DescriptionOf(config);
  return plan::UniformModel(static_cast<int>(config.GetInt("model.layers")),
                            config.GetBool("unit.root"), units.stages, units.tensor_ranks,
                            units.sequence_parallel);
}

Result<std::string> PrintPlan(const PlanArguments& arguments) {
  const Result<config::Config> config = MakeConfig(arguments);
  if (!config.ok()) return config.status();
  const plan::Policy policy = config::ToPolicy(*config);
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::ModelDescription description,
                              ModelOf(arguments, *config, policy.units));
  const Result<plan::Schedule> schedule = arguments.evaluation
                                              ? plan::BuildEvaluation(description, policy)
                                              : plan::BuildSchedule(description, policy);
  if (!schedule.ok()) return schedule.status();
  plan::MemoryPeak peak;  // of the rank that needs most
  for (int rank = 0; rank < schedule->num_ranks(); ++rank) {
    const plan::MemoryPeak one = plan::PredictPeak(*schedule, rank);
    if (one.total > peak.total) peak = one;
  }
  return fmt::format(
      "# peak on one rank in issue order: {}, of that unsharded and communication {}; at most {} "
      "in "
      "any order of execution (without temporaries)\n{}",
      FormatBytes(peak.total), FormatBytes(peak.transient),
      FormatBytes(plan::BoundLargestPeak(*schedule, {})), plan::PrintSchedule(*schedule));
}

Result<std::string> CheckPlan(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const plan::Schedule schedule, plan::ReadSchedule(path));
  size_t ops = 0;
  for (const plan::Program& program : schedule.programs) ops += program.ops.size();
  return fmt::format("ok: {}, {}\n", Counted(static_cast<int64_t>(ops), "op"),
                     Counted(schedule.num_ranks(), "rank"));
}

// As its knobs were turned last.
Result<std::map<std::string, std::string>> ValuesOf(const std::string& path) {
  SHARDSCOPE_ASSIGN_OR_RETURN(const std::string run, RunOfPath(path));
  Result<query::SnapshotPtr> snapshot = query::ReadSummary(run);
  if (snapshot.ok() && *snapshot == nullptr) snapshot = query::ReadSnapshot(run);
  if (!snapshot.ok()) return snapshot.status();
  if ((*snapshot)->IsImported() || !(*snapshot)->config.contains("model.layers")) {
    return Status::Error(fmt::format(
        "--run {}: that was not trained by shardscope-train, so its keys are not known", path));
  }
  return analysis::ConfigAt(**snapshot, INT32_MAX);
}

// What is not typed is as in a run, not as in the schedule of a small model.
Result<std::string> PrintMemory(const PlanArguments& arguments) {
  MemoryPlanArguments memory{.values = {},
                             .config = arguments.config,
                             .settings = {},
                             .limit = arguments.limit,
                             .json = arguments.json};
  if (!arguments.run.empty()) {
    SHARDSCOPE_ASSIGN_OR_RETURN(memory.values, ValuesOf(arguments.run));
  }
  for (const Setting& setting : arguments.settings) {
    memory.settings.push_back(TextOf(setting));
  }
  return PrintMemoryPlan(memory);
}

Result<std::string> PrintAny(const PlanArguments& arguments) {
  if (arguments.memory) return PrintMemory(arguments);
  if (!arguments.run.empty() || !arguments.config.empty() || !arguments.limit.empty() ||
      arguments.json) {
    return Status::Error("--run, --config, --limit and --json go with --memory only: add it");
  }
  return arguments.check.empty() ? PrintPlan(arguments) : CheckPlan(arguments.check);
}

int Plan(const PlanArguments& arguments) {
  const Result<std::string> text = PrintAny(arguments);
  if (text.ok()) Print(*text);
  return EndCommand("plan", text.status());
}

// All into one list as they are read: the later one wins.
void AddSettingOptions(CLI::App* command, const std::shared_ptr<PlanArguments>& arguments) {
  for (const Option& option : kOptions) {
    command
        ->add_option_function<std::string>(
            option.name,
            [arguments, option](const std::string& value) {
              arguments->settings.push_back({option.name, option.key, value});
            },
            option.help)
        ->type_name(std::string(option.name) == "--preset" ? "NAME" : "N")
        ->default_str(option.value)
        ->trigger_on_parse();
  }
  command
      ->add_option_function<std::vector<std::string>>(
          "--set",
          [arguments](const std::vector<std::string>& settings) {
            for (const std::string& setting : settings) {
              arguments->settings.push_back(SettingOf(setting));
            }
          },
          "Knobs: key=value, e.g. prefetch.backward=none strategy=grad_op; later ones win")
      ->type_name("KEY=VALUE")
      ->trigger_on_parse();
}

// Returns --memory.
CLI::Option* AddMemoryOptions(CLI::App* command, PlanArguments* arguments) {
  CLI::Option* memory = command->add_flag(
      "--memory", arguments->memory,
      "Print instead what a run with these keys takes, with other strategies and options "
      "too; keys that are not given are those of shardscope-train");
  command
      ->add_option("--limit", arguments->limit,
                   "With --memory: also the largest batch, sequence and model that fit so many "
                   "bytes a rank, as 2GB")
      ->type_name("SIZE");
  CLI::Option* run = command->add_option(
      "--run", arguments->run, "With --memory: the keys of this run, as they were turned last");
  run->type_name("RUN");
  command->add_option("--config", arguments->config, "With --memory: a run.toml to start from")
      ->type_name("FILE")
      ->excludes(run);
  command->add_flag("--json", arguments->json, "With --memory: as JSON, bytes exact");
  return memory;
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Print the schedule of a small model, or check one");
  AddSettingOptions(command, arguments);
  CLI::Option* evaluation =
      command->add_flag("--evaluation", arguments->evaluation,
                        "The schedule of a batch of an evaluation: the forwards alone");
  CLI::Option* check =
      command->add_option("--check", arguments->check, "Validate the schedule in FILE instead");
  check->type_name("FILE")->excludes(evaluation);
  AddMemoryOptions(command, arguments.get())->excludes(check)->excludes(evaluation);
  command->callback([arguments, exit_code] { *exit_code = Plan(*arguments); });
}

}  // namespace shardscope::app
