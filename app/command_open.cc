#include "app/command_open.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>

#include "ui/shell/window_app.h"

namespace shardscope::app {

int OpenWindow(const std::string& run) {
  const Status status = shell::RunWindowApp(run);
  if (status.ok()) return 0;
  fmt::print(stderr, "shardscope open: {}\n", status.message());
  return 1;
}

void AddOpenCommand(CLI::App& app, int* exit_code) {
  auto run = std::make_shared<std::string>();
  CLI::App* command = app.add_subcommand("open", "The app in a window; a live run is followed");
  command->add_option("run", *run, "Run folder or trace file; without it, choose one in the app")
      ->type_name("RUN");
  command->callback([run, exit_code] { *exit_code = OpenWindow(*run); });
}

}  // namespace shardscope::app
