// `shardscope tail RUN`: the steps of a run as they end; with --stdio all its rows, for another
// machine (protocol: trace/store/remote/tail_protocol.h).
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Registers the subcommand; its callback sets *exit_code.
void AddTailCommand(CLI::App& app, int* exit_code);

}  // namespace shardscope::app
