// shardscope: the app, and the same facts headless. One file a subcommand.
#include <CLI/CLI.hpp>

#include "app/command_plan.h"

int main(int argc, char** argv) {
  CLI::App app("Shows how sharded training overlaps communication with computation", "shardscope");
  app.require_subcommand(1);
  int exit_code = 0;
  shardscope::app::AddPlanCommand(app, &exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
