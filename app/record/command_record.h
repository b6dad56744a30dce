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
  int argc = 0;                      // the words before it, which are ours to parse
  std::vector<std::string> command;  // empty: none, or not `record`
};
// `app` has the command `record`, whose options say which of the words are theirs.
RecordedWords SplitRecordedCommand(const CLI::App& app, int argc, const char* const* argv);

// `recorded` is borrowed, and filled before the command line is parsed.
void AddRecordCommand(CLI::App& app, const std::vector<std::string>* recorded, int* exit_code);

}  // namespace shardscope::app
