// `shardscope plan [--units N] [--ranks N] [--set key=value ...]` prints the schedule of a small
// model; `shardscope plan --check FILE` validates one.
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Adds the subcommand; when it is used, `exit_code` gets 0, or 1 after an error was printed.
void AddPlanCommand(CLI::App& app, int* exit_code);

}  // namespace shardscope::app
