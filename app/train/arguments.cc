#include "app/train/arguments.h"

#include <CLI/CLI.hpp>
#include <filesystem>

#include "app/say.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/folder.h"

namespace shardscope::app {

namespace {

// Empty ones come from unset shell variables: an error, not the default.
CLI::Validator Given() {
  return CLI::Validator([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
}

CLI::App* AddCheckpointImport(ImportArguments* import, CLI::App* app) {
  CLI::App* const command =
      app->add_subcommand("import", "Makes a checkpoint of one that another program has written");
  command->add_option("--dcp", import->dcp, "Folder of torch.distributed.checkpoint")
      ->required()
      ->check(Given());
  command->add_option("--out", import->out, "The checkpoint's folder, which is not there yet")
      ->required()
      ->check(Given());
  command->add_option(
      "--set", import->settings,
      "key=value ...: model.heads or model.path, and settings of runs that go on from it");
  return command;
}

}  // namespace

Result<std::optional<Arguments>> ParseArguments(int argc, const char* const* argv) {
  Arguments arguments;
  CLI::App app("Trains a GPT or Llama on several ranks, sharded or not, and records every op.",
               "shardscope-train");
  const CLI::Validator given = Given();
  // Both at once, as they are read: the later one wins.
  std::vector<std::string>& settings = arguments.settings;
  app.add_option_function<std::string>(
         "--ranks",
         [&settings](const std::string& ranks) { settings.push_back("run.ranks=" + ranks); },
         "Number of ranks: as --set run.ranks=N")
      ->check(given)
      ->trigger_on_parse();
  app.add_option("--out", arguments.out, "Folder of the run; default runs/<name or time>")
      ->check(given);
  app.add_option("--config", arguments.config, "A run.toml to start from")->check(given);
  app.add_option_function<std::vector<std::string>>(
         "--set",
         [&settings](const std::vector<std::string>& more) {
           settings.insert(settings.end(), more.begin(), more.end());
         },
         "key=value ...; later ones win; over --config")
      ->trigger_on_parse();
  app.add_option("--resume", arguments.resume,
                 "A run or one of its checkpoints to go on from, bit for bit, with its settings; "
                 "--config and --set over them, other ranks and strategies too")
      ->check(given);
  app.add_option(
         "--dump", arguments.dump,
         "At the end write initial and final weights and all batches (safetensors); a token "
         "that the loss leaves out is in them as -1 - id")
      ->check(given);
  app.add_option("--losses", arguments.losses, "Write 'step loss grad_norm' lines to this file")
      ->check(given);
  app.add_flag("--reference", arguments.reference,
               "Train the unsharded reference on the global batch instead; prints its losses, and "
               "leaves a run only with --out");
  ImportArguments import;
  const CLI::App* const import_command = AddCheckpointImport(&import, &app);
  app.footer(
      "\nshardscope-train sample writes what the model of a checkpoint puts behind a prompt, and\n"
      "shardscope-train export its weights as a folder in Hugging Face's layout: see their "
      "--help\n\n" +
      config::KeyHelp());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return std::optional<Arguments>();
  } catch (const CLI::ParseError& error) {
    return Status::Error(std::string(error.what()) + " (see --help)");
  }
  if (import_command->parsed()) arguments.import = std::move(import);
  return std::optional<Arguments>(std::move(arguments));
}

namespace {

Status ApplyGiven(const Arguments& arguments, config::Config* config) {
  if (!arguments.config.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplyToml(arguments.config, config));
  }
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, config));
  }
  return Status::Ok();
}

// What a run that goes on from `checkpoint` begins its settings with.
Result<config::Config> SettingsOf(const std::string& checkpoint, const Arguments& arguments) {
  config::Config config;
  const std::string toml = checkpoint + "/run.toml";
  std::error_code error;
  // Without: it was no run of ours.
  if (std::filesystem::exists(toml, error)) {
    SHARDSCOPE_ASSIGN_OR_RETURN(const checkpoint::Checkpoint opened,
                                checkpoint::Checkpoint::Open(checkpoint));
    SHARDSCOPE_RETURN_IF_ERROR(opened.VerifyFile("run.toml"));
    const Status read = config::ApplyToml(toml, &config);
    if (!read.ok()) {
      return Status::Error(read.message() +
                           ": the checkpoint is of another version, or was changed by hand: take "
                           "another checkpoint, or the program that has written it");
    }
  }
  // It is another run, and the launcher says how many ranks it has.
  SHARDSCOPE_RETURN_IF_ERROR(config.Set("run.name", ""));
  if (arguments.launch) {
    SHARDSCOPE_RETURN_IF_ERROR(
        config.Set("run.ranks", std::to_string(arguments.launch->num_ranks)));
  }
  config.Inherit();
  return config;
}

// Where else a run says that its weights are: "; <why>: --resume <path>", or nothing.
std::string ElsewhereText(const std::string& run) {
  std::error_code error;
  const std::string toml = run + "/run.toml";
  if (!std::filesystem::exists(toml, error)) return "";
  const Result<config::Config> config = config::LoadToml(toml);
  if (!config.ok()) return "";
  const std::string& folder = config->Get("checkpoint.path");
  if (!folder.empty()) return "; its checkpoints are in " + folder + ": --resume " + folder;
  const std::string& from = config->Get("checkpoint.resume");
  return from.empty() ? "" : "; it went on from " + from + ": --resume " + from;
}

}  // namespace

Result<config::Config> ReadSettings(const Arguments& arguments) {
  config::Config config;
  SHARDSCOPE_RETURN_IF_ERROR(ApplyGiven(arguments, &config));
  const std::string resume =
      arguments.resume.empty() ? config.Get("checkpoint.resume") : arguments.resume;
  if (resume.empty()) return config;
  std::vector<std::string> passed;
  const Result<std::string> newest = checkpoint::FindCheckpoint(resume, &passed);
  if (!newest.ok()) return Status::Error(newest.message() + ElsewhereText(resume));
  const std::string& found = *newest;
  if (arguments.is_leader()) {
    for (const std::string& reason : passed) Say("passed over: " + reason);
  }
  SHARDSCOPE_ASSIGN_OR_RETURN(config, SettingsOf(found, arguments));
  // There lie the checkpoints of the run that it goes on from.
  const std::string path_before = config.Get("checkpoint.path");
  config.Unset("checkpoint.path");
  SHARDSCOPE_RETURN_IF_ERROR(ApplyGiven(arguments, &config));
  if (arguments.is_leader() && !path_before.empty() && config.Get("checkpoint.path").empty()) {
    Say("checkpoints go into the folder of this run: checkpoint.path=" + path_before +
        " is that of the run before, and taken only if it is given again");
  }
  SHARDSCOPE_RETURN_IF_ERROR(config.Set("checkpoint.resume", found));
  return config;
}

}  // namespace shardscope::app
