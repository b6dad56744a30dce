// `shardscope record [-o RUN] [--duration 30s] -- COMMAND...`: records a program that nobody
// changed.
#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace shardscope::app {

// Exit codes when COMMAND did not run, as of env and timeout: our own failure, found but not
// startable, not found. Else the exit code is COMMAND's.
inline constexpr int kRecordFailed = 125;
inline constexpr int kCannotStart = 126;
inline constexpr int kNotFound = 127;

// COMMAND is the program's, unread: a parser of options would take '[1,2]' apart and drop ''.
struct RecordedWords {
  int argc;                          // the words before it, which are ours to parse
  std::vector<std::string> command;  // empty: none, or not `record`
};
RecordedWords SplitRecordedCommand(int argc, const char* const* argv);

void AddRecordCommand(CLI::App& app, std::vector<std::string> recorded, int* exit_code);

}  // namespace shardscope::app
