// What a run was configured with at a step. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Every key as the run began, with the knobs as they were turned up to `step`.
std::map<std::string, std::string> ConfigAt(const query::Snapshot& snapshot, int32_t step);

}  // namespace shardscope::analysis
