#include "app/command_plan.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "app/say.h"
#include "engine/config/config.h"
#include "engine/plan/memory.h"
#include "engine/plan/policy.h"
#include "engine/plan/text.h"
#include "engine/plan/toy_model.h"
#include "engine/plan/validate.h"
#include "trace/base/counted.h"
#include "trace/base/units.h"

namespace shardscope::app {
namespace {

struct PlanArguments {
  std::string preset = "fsdp2";
  std::string units = "3";  // as text: the keys say what is allowed
  std::string ranks = "2";
  std::string micro_batches = "1";
  std::vector<std::string> settings;
  std::string check;  // file; empty: print a schedule
};

// The keys that shape a schedule. The others would be accepted and change nothing.
bool ShapesSchedule(const std::string& key) {
  for (const char* prefix : {"prefetch.", "precision."}) {
    if (key.rfind(prefix, 0) == 0) return true;
  }
  for (const char* name : {"preset", "strategy", "reshard_after_forward", "host.run_ahead",
                           "unit.root", "run.ranks", "train.micro_batches", "model.layers"}) {
    if (key == name) return true;
  }
  return false;
}

Result<config::Config> MakeConfig(const PlanArguments& arguments) {
  config::Config config;
  struct Option {
    const char* name;
    const char* key;
    std::string value;
  };
  const std::vector<Option> options = {
      {"--preset", "preset", arguments.preset},
      {"--units", "model.layers", arguments.units},
      {"--ranks", "run.ranks", arguments.ranks},
      {"--micro-batches", "train.micro_batches", arguments.micro_batches},
      {"unit.root", "unit.root", "true"}};
  for (const Option& option : options) {
    if (config.Set(option.key, option.value).ok()) continue;
    // In the words of whoever typed the option, not the key's.
    return Status::Error(fmt::format("{} {}: must be {}", option.name, option.value,
                                     config::Allowed(*config::FindKey(option.key))));
  }
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, &config));
    const std::string key = setting.substr(0, setting.find('='));
    if (!ShapesSchedule(key)) {
      return Status::Error("'" + key + "' does not shape a schedule: leave it out here");
    }
  }
  SHARDSCOPE_RETURN_IF_ERROR(config.Check());
  return config;
}

Result<std::string> PrintPlan(const PlanArguments& arguments) {
  const Result<config::Config> config = MakeConfig(arguments);
  if (!config.ok()) return config.status();
  const plan::ModelDescription model = plan::ToyModel(
      static_cast<int>(config->GetInt("model.layers")), config->GetBool("unit.root"));
  const Result<plan::Schedule> schedule = plan::BuildSchedule(model, config::ToPolicy(*config));
  if (!schedule.ok()) return schedule.status();
  const plan::MemoryPeak peak = plan::PredictPeak(*schedule, 0);
  return fmt::format(
      "# peak on one rank in issue order: {}, of that unsharded and communication {}; at most {} "
      "in "
      "any order of execution (without temporaries)\n{}",
      FormatBytes(peak.total), FormatBytes(peak.transient),
      FormatBytes(plan::BoundPeak(*schedule, 0, {})), plan::PrintSchedule(*schedule));
}

Result<std::string> CheckPlan(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  if (!file || !(text << file.rdbuf())) {
    return Status::Error("cannot read '" + path + "': " + std::strerror(errno));
  }
  const Result<plan::Schedule> schedule = plan::ParseSchedule(text.str());
  if (!schedule.ok()) return Status::Error(path + ": " + schedule.message());
  const Status valid = plan::Validate(*schedule);
  if (!valid.ok()) return Status::Error(path + ": " + valid.message());
  size_t ops = 0;
  for (const plan::Program& program : schedule->programs) ops += program.ops.size();
  return fmt::format("ok: {}, {}\n", Counted(static_cast<int64_t>(ops), "op"),
                     Counted(schedule->num_ranks, "rank"));
}

int Plan(const PlanArguments& arguments) {
  const Result<std::string> text =
      arguments.check.empty() ? PrintPlan(arguments) : CheckPlan(arguments.check);
  if (!text.ok()) {
    Say("shardscope plan: " + text.message());
    return 1;
  }
  const bool written = std::fwrite(text->data(), 1, text->size(), stdout) == text->size();
  if (!written || std::fflush(stdout) != 0) {
    Say(std::string("shardscope plan: cannot write: ") + std::strerror(errno));
    return 1;
  }
  return 0;
}

}  // namespace

void AddPlanCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<PlanArguments>();
  CLI::App* command =
      app.add_subcommand("plan", "Print the schedule of a small model, or check one");
  command
      ->add_option("--preset", arguments->preset,
                   "Whose schedule: that of PyTorch's fsdp2 or fsdp1")
      ->capture_default_str();
  command->add_option("--units", arguments->units, "Blocks besides the root unit")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--ranks", arguments->ranks, "Ranks that share the parameters")
      ->type_name("N")
      ->capture_default_str();
  command->add_option("--micro-batches", arguments->micro_batches, "Micro-batches of a step")
      ->type_name("N")
      ->capture_default_str();
  command
      ->add_option("--set", arguments->settings,
                   "Knobs: key=value, e.g. prefetch.backward=none strategy=grad_op")
      ->type_name("KEY=VALUE");
  command->add_option("--check", arguments->check, "Validate the schedule in FILE instead")
      ->type_name("FILE");
  command->callback([arguments, exit_code] { *exit_code = Plan(*arguments); });
}

}  // namespace shardscope::app
