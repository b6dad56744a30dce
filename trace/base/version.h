// The version of Shardscope: what --version prints and traces carry, and CMakeLists.txt reads from
// here.
#pragma once

namespace shardscope {

inline constexpr const char* kVersion = "0.1.0";

}  // namespace shardscope
