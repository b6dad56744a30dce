// What a process tells of itself in its trace.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace shardscope::inject {

// Name of the program, as the kernel has it.
std::string ProgramName();
// The arguments, separated by spaces.
std::string CommandLine();
// A variable of the environment; `otherwise` if it holds no number.
int64_t NumberFrom(const char* variable, int64_t otherwise);
// Settings that decide how GPU work overlaps, as rows of table config.
std::map<std::string, std::string> Settings();

}  // namespace shardscope::inject
