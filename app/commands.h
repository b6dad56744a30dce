// The command line of `shardscope`: its subcommands, one file each, and what is said when the words
// cannot be read.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "trace/analysis/scope.h"
#include "trace/base/status.h"

namespace CLI {
class App;
class Option;
class ParseError;
}  // namespace CLI

namespace shardscope::app {

// Runs the subcommand that the words name; returns the exit code. What is wrong has been said.
int RunCommandLine(int argc, char** argv);

// One line without a newline: which subcommand, what is wrong, what to do. `app` is the program
// whose parse threw `error`.
std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error);

// 1; of `record` its own code, so that it is never taken for the program's.
int ParseErrorCode(const CLI::App& app);

// The exit code of `command`: 0, or 1 after its error was printed.
int EndCommand(const std::string& command, const Status& status);

// RUN, that `command` has to be given: a run, or what is imported first.
void AddRunArgument(CLI::App* command, std::string* run);

// Of --limit, which says how many rows are listed.
inline constexpr int kMostListed = 1'000'000'000;

// The option `name` a:b, a range of steps.
CLI::Option* AddStepsOption(CLI::App* command, const std::string& name, const char* help,
                            std::optional<analysis::Scope>* steps);

// Each adds a subcommand; when that is used, `exit_code` gets its exit code, and errors have been
// printed.

// `shardscope open [RUN]`, and `shardscope` alone: the app in a window.
void AddOpenCommand(CLI::App& app, int* exit_code);

// The app without a run; returns the exit code once the window is closed.
int OpenWindow();

// `shardscope import PATH [-o RUN]`: makes a run of what another profiler recorded.
void AddImportCommand(CLI::App& app, int* exit_code);

// `shardscope blocks RUN [--at TIME] [--since TIME] [--rank N] [--json]`: what a rank's memory was
// made of at one moment, block by block.
void AddBlocksCommand(CLI::App& app, int* exit_code);

// Exit codes of `compare --fail-if-slower`.
inline constexpr int kSlower = 3;
inline constexpr int kNotComparable = 4;

// `shardscope area RUN [--from 12.5s] [--to 13.1s] [--step N] [--ranks 0,1] [--json]`: how the time
// of ranks divides in a stretch of a run.
void AddAreaCommand(CLI::App& app, int* exit_code);

// `shardscope compare A [B] [--steps-a a:b] [--steps-b c:d] [--fail-if-slower 5%] [--json]`: what
// makes one run slower than another.
void AddCompareCommand(CLI::App& app, int* exit_code);

// `shardscope export RUN --format perfetto|kineto|chakra|csv|html [-o PATH] [--table NAME]
// [--force]`: the run in the form of another tool.
void AddExportCommand(CLI::App& app, int* exit_code);

// `shardscope lesson [ID] [--start] [--answer X] [--quiz X] [--check] [--print]`: lessons, and what
// is right in them.
void AddLessonCommand(CLI::App& app, int* exit_code);

// `shardscope moment RUN --at TIME [--json]`: what every rank does at one time of a run, in words.
void AddMomentCommand(CLI::App& app, int* exit_code);

// `shardscope plan [--units N] [--ranks N] [--set key=value ...]` prints the schedule of a small
// model; `shardscope plan --check FILE` validates one, `shardscope plan --memory` says what a run
// takes.
void AddPlanCommand(CLI::App& app, int* exit_code);

// `shardscope ranks RUN [--json] [--all] [--scope WORD]`: which rank the others wait for.
void AddRanksCommand(CLI::App& app, int* exit_code);

// `shardscope bookmarks RUN [--json | --add LINK --note TEXT | --remove ID]`: places in a run with
// notes.
void AddBookmarksCommand(CLI::App& app, int* exit_code);

// `shardscope report RUN [--json] [--all]`: the facts of a run as text or JSON.
void AddReportCommand(CLI::App& app, int* exit_code);

// `shardscope search RUN QUERY [--json] [--limit N]`: what of a run a few words find.
void AddSearchCommand(CLI::App& app, int* exit_code);

// `shardscope shot RUN -o x.png [--size 1600x900] [--step K] [--at TIME] [--language en|zh]
// [--theme dark|light] [--json]`: the whole default window as a picture, without display; with
// --animate x.png as one that plays a step.
void AddShotCommand(CLI::App& app, int* exit_code);

// `shardscope sql RUN "SELECT ..."`: a read-only query over all files of a run.
void AddSqlCommand(CLI::App& app, int* exit_code);

// `shardscope tail RUN`: the steps of a run as they end; with --stdio all its rows, for another
// machine (protocol: trace/store/remote/tail_protocol.h).
void AddTailCommand(CLI::App& app, int* exit_code);

// Exit codes of `record` when COMMAND did not run, as of env and timeout: our own failure, found
// but not startable, not found. Else the exit code is COMMAND's.
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

// `shardscope record [-o RUN] [--duration 30s] -- COMMAND...`: records an unmodified program.
// `recorded` is borrowed, and filled before the command line is parsed.
void AddRecordCommand(CLI::App& app, const std::vector<std::string>* recorded, int* exit_code);

}  // namespace shardscope::app
