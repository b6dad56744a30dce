// plan_oracle_test [--schedules=N] [--interleavings=N] [--mutations=N] [--seed=N] [gtest options]
#include <gtest/gtest.h>

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

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  shardscope::oracle::Options& options = shardscope::oracle::TestOptions();
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
