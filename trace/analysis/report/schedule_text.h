// What the text form of a Schedule (docs/schedule.md) says that no table does.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace shardscope::analysis {

// Names of the parameters of the unit, in its order; empty if `text` has no such unit.
std::vector<std::string> ParametersOf(std::string_view text, std::string_view unit);

// Which program each rank runs, by rank; empty if `text` does not say.
std::vector<int32_t> ProgramsOfRanks(std::string_view text);

}  // namespace shardscope::analysis
