// `shardscope shot RUN -o x.png [--size 1600x900] [--step K] [--language en|zh] [--theme
// dark|light] [--json]`: the whole default window as a picture, without display.
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Adds the subcommand; when it is used, `exit_code` gets 0, or 1 after an error was printed.
void AddShotCommand(CLI::App& app, int* exit_code);

}  // namespace shardscope::app
