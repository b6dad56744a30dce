// `shardscope plan --memory`: what a run will take, and the largest that fits, per strategy and
// option, before any of it runs.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "trace/base/status.h"

namespace shardscope::app {

struct MemoryPlanArguments {
  std::map<std::string, std::string> values;  // of a run; empty: the defaults
  std::string config;                         // a run.toml; empty: none
  std::vector<std::string> settings;          // key=value, later ones win
  std::string limit;                          // "2GB"; empty: that of the keys, if they have one
  bool json = false;
};

Result<std::string> PrintMemoryPlan(const MemoryPlanArguments& arguments);

}  // namespace shardscope::app
