// How much the oracle's tests do: command line switches of plan_oracle_test.
#pragma once

#include <cstdint>

namespace shardscope::oracle {

struct Options {
  int schedules = 500;      // --schedules=N, at least
  int interleavings = 100;  // --interleavings=N, of each schedule
  int mutations = 300;      // --mutations=N, of each kind, at least
  uint64_t seed = 1;        // --seed=N
};

// Set by main() before any test runs.
Options& TestOptions();

}  // namespace shardscope::oracle
