// plan_oracle_test [--schedules=N] [--interleavings=N] [--mutations=N] [--seed=N] [gtest options]
// The environment variable SHARDSCOPE_TEST_SCALE, a factor, shortens the defaults where every op
// costs more (sanitizers).
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>
#include <string>

#include "tests/oracle/options.h"

namespace {

// Whether `argument` is "--name=number"; then `value` is the number.
template <typename Number>
bool Parse(const std::string& argument, const std::string& name, Number* value) {
  const std::string prefix = "--" + name + "=";
  if (argument.rfind(prefix, 0) != 0) return false;
  std::istringstream text(argument.substr(prefix.size()));
  return static_cast<bool>(text >> *value) && text.eof();
}

void Scale(double factor, shardscope::oracle::Options* options) {
  for (int* count : {&options->schedules, &options->interleavings, &options->mutations}) {
    *count = std::max(1, static_cast<int>(*count * factor));
  }
  std::cout << "scaled by " << factor << ": " << options->schedules << " schedules, "
            << options->interleavings << " interleavings, " << options->mutations
            << " mutations of each kind\n";
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  shardscope::oracle::Options& options = shardscope::oracle::TestOptions();
  if (const char* scale = std::getenv("SHARDSCOPE_TEST_SCALE")) Scale(std::atof(scale), &options);
  for (int at = 1; at < argc; ++at) {
    const std::string argument = argv[at];
    if (Parse(argument, "schedules", &options.schedules) ||
        Parse(argument, "interleavings", &options.interleavings) ||
        Parse(argument, "mutations", &options.mutations) ||
        Parse(argument, "seed", &options.seed)) {
      continue;
    }
    std::cerr << "unknown argument " << argument
              << "; there are --schedules --interleavings --mutations --seed, each =NUMBER\n";
    return 2;
  }
  return RUN_ALL_TESTS();
}

shardscope::oracle::Options& shardscope::oracle::TestOptions() {
  static Options options;
  return options;
}
