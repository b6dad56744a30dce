#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "app/commands.h"
#include "app/import/import_progress.h"
#include "app/import/kept_report.h"
#include "app/say.h"
#include "trace/import/cache.h"
#include "trace/import/import.h"

namespace shardscope::app {
namespace {

struct ImportArguments {
  std::string path;
  std::string output;
};

Status Import(const ImportArguments& arguments) {
  ImportProgress progress;
  const imports::ImportOptions options = progress.Options();
  const Result<imports::ImportedRun> run =
      arguments.output.empty() ? imports::ImportCached(arguments.path, options)
                               : imports::ImportRun(arguments.path, arguments.output, options);
  progress.End();
  if (!run.ok()) return run.status();
  // Where they cannot be kept, `report` makes its text itself.
  (void)KeepReportsOf(run->folder);
  for (const std::string& title : run->passed_over) {
    Say(fmt::format("shardscope import: passed over {}: no importer takes it", title));
  }
  Print(fmt::format("{}\n", run->folder));
  return Status::Ok();
}

}  // namespace

void AddImportCommand(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<ImportArguments>();
  CLI::App* command = app.add_subcommand(
      "import", "Make a run of what another profiler recorded; its folder is printed");
  command
      ->add_option(
          "path", arguments->path,
          "Files of torch.profiler, PyTorch's memory snapshots and flight recorder, or exports of "
          "Nsight Systems: one, plain or compressed, an archive, or a folder with one a rank")
      ->required()
      ->type_name("PATH");
  command
      ->add_option("-o", arguments->output,
                   "The run's folder; without it, a cache that all commands use as well")
      ->type_name("RUN");
  command->callback(
      [arguments, exit_code] { *exit_code = EndCommand("import", Import(*arguments)); });
}

}  // namespace shardscope::app
