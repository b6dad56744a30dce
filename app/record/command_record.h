// `shardscope record [-o RUN] [--duration 30s] -- COMMAND...`: records a program that nobody
// changed.
#pragma once

namespace CLI {
class App;
}

namespace shardscope::app {

// Exit codes when COMMAND did not run, as of env and timeout: our own failure, found but not
// startable, not found. Else the exit code is COMMAND's.
inline constexpr int kRecordFailed = 125;
inline constexpr int kCannotStart = 126;
inline constexpr int kNotFound = 127;

void AddRecordCommand(CLI::App& app, int* exit_code);

}  // namespace shardscope::app
