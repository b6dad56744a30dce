// What the programs print. Text is shown as text: what a trace, a schedule or another foreign file
// has in it must not steer the terminal. Nothing here throws (fmt::print() would, and end the
// program with a signal instead of its exit code).
#pragma once

#include <string_view>

namespace shardscope::app {

// Where standard input, output or error are closed, files that are opened later would take their
// place. First thing in main().
void HoldStandardDescriptors();

// From now on a file that may not grow (ulimit -f) is a failed write, which is told as one, and no
// signal that ends the program. Programs that are started then inherit this.
void TakeFullFilesAsErrors();

// One line on standard error. Where it cannot be read (closed, full, a broken pipe) it is left
// unsaid.
void Say(std::string_view line);

// On standard output; buffered. false: something could not be written, so that there is no use in
// printing more; ExitCode() says why.
bool Print(std::string_view text);

// The same for what programs read: byte by byte, but on a terminal as text.
bool PrintExact(std::string_view bytes);

// Our own control sequences, for a terminal.
bool PrintControl(std::string_view sequence);

// Lets readers have what was printed so far. false: as Print().
bool FlushOutput();

// Whether standard output is a pipe whose reader has left.
bool HasNoReader();

// What main() returns: `exit_code`, or 1 after it was said that not all could be printed. Where the
// reader has left, nothing is said, and it is 128 + SIGPIPE, as if that signal had ended us.
int ExitCode(int exit_code, std::string_view program);

}  // namespace shardscope::app
