// SHARDSCOPE_CHECK: for errors of the programmer, never for input. On in every build type.
#pragma once

namespace shardscope {

[[noreturn]] void CheckFailed(const char* condition, const char* file, int line);

}  // namespace shardscope

#define SHARDSCOPE_CHECK(condition)                    \
  (static_cast<bool>(condition) ? static_cast<void>(0) \
                                : ::shardscope::CheckFailed(#condition, __FILE__, __LINE__))
