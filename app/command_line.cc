#include "app/commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "app/say.h"
#include "trace/base/text.h"
#include "trace/base/version.h"

namespace shardscope::app {
namespace {

const CLI::App* Subcommand(const CLI::App& app) {
  const std::vector<CLI::App*> read = app.get_subcommands();
  return read.empty() ? nullptr : read.front();
}

std::vector<std::string> Names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

// `word` stands where a subcommand belongs.
std::string NoSuchCommand(const CLI::App& app, const std::string& word) {
  const std::string no = fmt::format("{}: there is no command '{}'", app.get_name(), word);
  std::error_code ignored;
  if (std::filesystem::exists(word, ignored)) {
    return fmt::format("{}; for a run it is: {} open {}", no, app.get_name(), word);
  }
  const std::vector<std::string> names = Names(app);
  const std::optional<std::string> near = NearestName(word, names);
  if (near) return fmt::format("{}; did you mean {}?", no, *near);
  return fmt::format("{}; there are {} (see {} --help)", no, Join(names, ", "), app.get_name());
}

}  // namespace

std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = Subcommand(app);
  if (command == nullptr) {
    const std::vector<std::string> rest = app.remaining();
    if (!rest.empty() && !rest.front().starts_with('-')) return NoSuchCommand(app, rest.front());
    return fmt::format("{}: {} (see {} --help)", app.get_name(), error.what(), app.get_name());
  }
  const std::string name = fmt::format("{} {}", app.get_name(), command->get_name());
  std::string what = error.what();
  constexpr std::string_view kNotConverted = "Could not convert: ";
  if (what.starts_with(kNotConverted)) {
    what = what.substr(kNotConverted.size()) + ": it takes no such value";
  }
  return fmt::format("{}: {} (see {} --help)", name, what, name);
}

int ParseErrorCode(const CLI::App& app) {
  const CLI::App* command = Subcommand(app);
  return command != nullptr && command->get_name() == "record" ? kRecordFailed : 1;
}

void AddRunArgument(CLI::App* command, std::string* run) {
  command->add_option("run", *run, "Run folder or trace file, live or not; or what `import` takes")
      ->required()
      ->type_name("RUN");
}

CLI::Option* AddStepsOption(CLI::App* command, const std::string& name, const char* help,
                            std::optional<analysis::Scope>* steps) {
  return command
      ->add_option_function<std::string>(
          name,
          [name, steps](const std::string& text) {
            const Result<analysis::Scope> scope = analysis::ParseSteps(text);
            if (!scope.ok()) throw CLI::ValidationError(name + " " + text, scope.message());
            *steps = *scope;
          },
          help)
      ->type_name("a:b");
}

int EndCommand(const std::string& command, const Status& status) {
  if (!status.ok()) Say("shardscope " + command + ": " + status.message());
  return status.ok() ? 0 : 1;
}

int RunCommandLine(int argc, char** argv) {
  CLI::App app("Shows how sharded training overlaps communication with computation", "shardscope");
  app.set_version_flag("--version", std::string("shardscope ") + kVersion);
  int exit_code = 0;
#ifdef SHARDSCOPE_UI
  app.require_subcommand(0, 1);  // none: the window
  AddBookmarksCommand(app, &exit_code);
  AddOpenCommand(app, &exit_code);
  AddShotCommand(app, &exit_code);
#else
  app.require_subcommand(1);
#endif
  AddAreaCommand(app, &exit_code);
  AddBlocksCommand(app, &exit_code);
  AddCompareCommand(app, &exit_code);
  AddExportCommand(app, &exit_code);
  AddImportCommand(app, &exit_code);
  AddLessonCommand(app, &exit_code);
  AddMomentCommand(app, &exit_code);
  AddPlanCommand(app, &exit_code);
  RecordedWords recorded;
  AddRecordCommand(app, &recorded.command, &exit_code);
  recorded = SplitRecordedCommand(app, argc, argv);
  AddRanksCommand(app, &exit_code);
  AddReportCommand(app, &exit_code);
  AddSearchCommand(app, &exit_code);
  AddSqlCommand(app, &exit_code);
  AddTailCommand(app, &exit_code);
  try {
    app.parse(recorded.argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    Say(ParseErrorText(app, error));
    return ParseErrorCode(app);
  }
#ifdef SHARDSCOPE_UI
  if (app.get_subcommands().empty()) return OpenWindow();
#endif
  return exit_code;
}

}  // namespace shardscope::app
