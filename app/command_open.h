// `shardscope open [RUN]`, and `shardscope` alone: the app in a window.
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Adds the subcommand; when it is used, `exit_code` gets 0, or 1 after an error was printed.
void AddOpenCommand(CLI::App& app, int* exit_code);

// The app without a run; returns the exit code once the window is closed.
int OpenWindow();

}  // namespace shardscope::app
