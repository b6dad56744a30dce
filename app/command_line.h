// What is said when a command line cannot be read: which subcommand, what is wrong, what to do.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace shardscope::app {

// One line without a newline. `app` is the program whose parse threw `error`.
std::string ParseErrorText(const CLI::App& app, const CLI::ParseError& error);

// 1; of `record` its own code, so that it is never taken for the program's.
int ParseErrorCode(const CLI::App& app);

}  // namespace shardscope::app
