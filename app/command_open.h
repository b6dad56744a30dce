// `shardscope open [RUN]`, and `shardscope` alone: the app in a window.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace shardscope::app {

// Adds the subcommand; when it is used, `exit_code` gets 0, or 1 after an error was printed.
void AddOpenCommand(CLI::App& app, int* exit_code);

// Returns the exit code once the window is closed. `run` may be empty. `one_frame`: closes by
// itself after the first frame, whose time it prints.
int OpenWindow(const std::string& run, bool one_frame = false);

}  // namespace shardscope::app
