// Which times of files are claims of damaged ones.
#pragma once

#include <cstdint>

namespace shardscope {

// No time of a file is as late. Two that are not can be added.
inline constexpr int64_t kLatestSaneNs = int64_t{1} << 61;

// Since a boot, or since the epoch.
constexpr bool IsSaneNs(int64_t time_ns) { return time_ns > 0 && time_ns < kLatestSaneNs; }

}  // namespace shardscope
