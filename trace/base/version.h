// The version of Shardscope, as in CMakeLists.txt: what --version prints and traces carry.
#pragma once

namespace shardscope {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace shardscope
