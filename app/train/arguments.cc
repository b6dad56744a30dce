#include "app/train/arguments.h"

#include <CLI/CLI.hpp>

namespace shardscope::app {

Result<std::optional<Arguments>> ParseArguments(int argc, const char* const* argv) {
  Arguments arguments;
  CLI::App app("Trains a byte-level decoder with FSDP on this machine and records every op.",
               "shardscope-train");
  // Empty ones come from unset shell variables: an error, not the default.
  const CLI::Validator given([](std::string& text) { return text.empty() ? "is empty" : ""; }, "");
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
  app.add_option("--dump", arguments.dump,
                 "At the end write initial and final weights and all batches (safetensors)")
      ->check(given);
  app.add_option("--losses", arguments.losses, "Write 'step loss grad_norm' lines to this file")
      ->check(given);
  app.add_flag("--reference", arguments.reference,
               "Train the unsharded reference on the global batch instead; prints its losses, and "
               "leaves a run only with --out");
  app.footer("\n" + config::KeyHelp());
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& help) {
    app.exit(help);
    return std::optional<Arguments>();
  } catch (const CLI::ParseError& error) {
    return Status::Error(std::string(error.what()) + " (see --help)");
  }
  return std::optional<Arguments>(std::move(arguments));
}

Result<config::Config> ReadSettings(const Arguments& arguments) {
  config::Config config;
  if (!arguments.config.empty()) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplyToml(arguments.config, &config));
  }
  for (const std::string& setting : arguments.settings) {
    SHARDSCOPE_RETURN_IF_ERROR(config::ApplySetting(setting, &config));
  }
  return config;
}

}  // namespace shardscope::app
