// What a run was configured with at a step. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Every key as the run began, with the knobs as they were turned up to `step`.
std::map<std::string, std::string> ConfigAt(const query::Snapshot& snapshot, int32_t step);

// Of these what shapes a step most, key and value, in the order in which one says it: strategy,
// preset, precision, and options that are on. Of another program's trace empty.
using Setup = std::vector<std::pair<std::string, std::string>>;
Setup SetupAt(const query::Snapshot& snapshot, int32_t step);
// "strategy=full preset=fsdp2 precision.param=bf16"
std::string SetupText(const Setup& setup);

}  // namespace shardscope::analysis
