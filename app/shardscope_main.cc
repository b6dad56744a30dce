// shardscope: the app, and the same facts headless. One file a subcommand.
#include <CLI/CLI.hpp>
#include <exception>

#include "app/command_line.h"
#ifdef SHARDSCOPE_UI
#include "app/command_open.h"
#include "app/command_shot.h"
#endif
#include "app/command_plan.h"
#include "app/command_report.h"
#include "app/command_sql.h"
#include "app/command_tail.h"
#include "app/record/command_record.h"
#include "app/say.h"
#include "trace/analysis/derived/derived.h"
#include "trace/base/heap.h"
#include "trace/base/shortage.h"
#include "trace/base/version.h"

namespace {

int Run(int argc, char** argv) {
  CLI::App app("Shows how sharded training overlaps communication with computation", "shardscope");
  app.set_version_flag("--version", std::string("shardscope ") + shardscope::kVersion);
  int exit_code = 0;
#ifdef SHARDSCOPE_UI
  app.require_subcommand(0, 1);  // none: the window
  shardscope::app::AddOpenCommand(app, &exit_code);
  shardscope::app::AddShotCommand(app, &exit_code);
#else
  app.require_subcommand(1);
#endif
  shardscope::app::AddPlanCommand(app, &exit_code);
  shardscope::app::RecordedWords recorded;
  shardscope::app::AddRecordCommand(app, &recorded.command, &exit_code);
  recorded = shardscope::app::SplitRecordedCommand(app, argc, argv);
  shardscope::app::AddReportCommand(app, &exit_code);
  shardscope::app::AddSqlCommand(app, &exit_code);
  shardscope::app::AddTailCommand(app, &exit_code);
  try {
    app.parse(recorded.argc, argv);
  } catch (const CLI::Success& help) {
    return app.exit(help);
  } catch (const CLI::ParseError& error) {
    shardscope::app::Say(shardscope::app::ParseErrorText(app, error));
    return shardscope::app::ParseErrorCode(app);
  }
#ifdef SHARDSCOPE_UI
  if (app.get_subcommands().empty()) return shardscope::app::OpenWindow();
#endif
  return exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  shardscope::app::HoldStandardDescriptors();
  shardscope::ReturnLargeBlocks();
  shardscope::EndOnShortage();
  shardscope::query::DeriveWhileFinishing(shardscope::analysis::MakeDeriver());
  try {
    return shardscope::app::ExitCode(Run(argc, argv), "shardscope");
  } catch (const std::exception& error) {
    shardscope::app::Say("shardscope: " + shardscope::ErrorText(error));
    return 1;
  }
}
