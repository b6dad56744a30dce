// shardscope: the app, and the same facts headless. One file a subcommand.
#include <CLI/CLI.hpp>

#include "app/command_plan.h"
#include "app/command_report.h"
#include "app/command_sql.h"
#include "app/command_tail.h"

int main(int argc, char** argv) {
  CLI::App app("Shows how sharded training overlaps communication with computation", "shardscope");
  app.require_subcommand(1);
  int exit_code = 0;
  shardscope::app::AddPlanCommand(app, &exit_code);
  shardscope::app::AddReportCommand(app, &exit_code);
  shardscope::app::AddSqlCommand(app, &exit_code);
  shardscope::app::AddTailCommand(app, &exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
