// What is said of an op's error that says nothing itself.
#pragma once

namespace shardscope::executor {

inline constexpr const char* kForeignError = "threw something that is not a std::exception";

}  // namespace shardscope::executor
