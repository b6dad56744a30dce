// `shardscope report RUN [--json] [--all]`: the facts of a run as text or JSON.
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Adds the subcommand; when it is used, `exit_code` gets 0, or 1 after an error was printed.
void AddReportCommand(CLI::App& app, int* exit_code);

}  // namespace shardscope::app
