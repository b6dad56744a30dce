#include "app/command_main.h"

#include <CLI/CLI.hpp>
#include <string>

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
#include "trace/base/version.h"

namespace shardscope::app {

int RunCommandLine(int argc, char** argv) {
  CLI::App app("Shows how sharded training overlaps communication with computation", "shardscope");
  app.set_version_flag("--version", std::string("shardscope ") + kVersion);
  int exit_code = 0;
#ifdef SHARDSCOPE_UI
  app.require_subcommand(0, 1);  // none: the window
  AddOpenCommand(app, &exit_code);
  AddShotCommand(app, &exit_code);
#else
  app.require_subcommand(1);
#endif
  AddPlanCommand(app, &exit_code);
  RecordedWords recorded;
  AddRecordCommand(app, &recorded.command, &exit_code);
  recorded = SplitRecordedCommand(app, argc, argv);
  AddReportCommand(app, &exit_code);
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
