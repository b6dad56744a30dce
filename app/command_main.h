// The whole command line of `shardscope`.
#pragma once

namespace shardscope::app {

// Runs the subcommand that the words name; returns the exit code. What is wrong has been said.
int RunCommandLine(int argc, char** argv);

}  // namespace shardscope::app
