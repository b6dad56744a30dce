// The largest batch, sequence and model that fit a limit, found from Schedules.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/config/config.h"

namespace shardscope::footprint {

// Keys that scale what a run takes, each with the others as they are: those of the data, and of the
// model unless model.path gives it.
std::vector<std::string_view> ScalesOf(const config::Config& config);

struct Largest {
  int64_t value = 0;        // of the key; 0: no value fits
  bool is_at_most = false;  // the key allows no larger one
};

// `config` has passed Check(). More of the key never takes less; values that the other keys do not
// go with count as too large. Builds a dozen Schedules.
Largest LargestThatFits(const config::Config& config, std::string_view key, int64_t limit_bytes);

}  // namespace shardscope::footprint
