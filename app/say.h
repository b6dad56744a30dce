// Say: one line on stderr. Where nobody can read it (closed, full, a broken pipe) it is left
// unsaid: fmt::print() would throw, and end the program with a signal instead of its exit code.
#pragma once

#include <cstdio>
#include <string>

namespace shardscope::app {

inline void Say(const std::string& line) { std::fputs((line + "\n").c_str(), stderr); }

}  // namespace shardscope::app
