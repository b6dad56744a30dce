// Runs one subcommand in the test's own process, as the main program would.
#pragma once

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <string>

namespace shardscope::app {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string error;
};

// `add` registers the subcommand; `arguments` begin with its name.
inline Outcome RunCommand(void (*add)(CLI::App&, int*), const std::string& arguments) {
  Outcome outcome;
  CLI::App app;
  add(app, &outcome.exit_code);
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  try {
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    outcome.exit_code = app.exit(error);
  }
  outcome.out = testing::internal::GetCapturedStdout();
  outcome.error = testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace shardscope::app
