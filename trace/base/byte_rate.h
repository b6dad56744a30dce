// Bytes a second: one rule for what is measured of collectives and for links that are set by it.
#pragma once

#include <cstdint>

namespace shardscope {

// 0 for what took no time.
constexpr double BytesPerSecond(int64_t bytes, double duration_ns) {
  return duration_ns > 0 ? static_cast<double>(bytes) / (duration_ns / 1e9) : 0;
}

}  // namespace shardscope
