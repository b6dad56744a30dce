// `shardscope sql RUN "SELECT ..."`: a read-only query over all files of a run.
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Registers the subcommand; its callback sets *exit_code.
void AddSqlCommand(CLI::App& app, int* exit_code);

}  // namespace shardscope::app
