// Which times of other programs' files and of clocks are claims of damaged ones.
#pragma once

#include <cstdint>
#include <limits>

namespace shardscope {

// For times that an offset is still added to: while a file is imported, while clocks are merged.
// None is as late, and the sum of two that are not is a time that readers of our own rows take
// (query::SaneTime() in trace/query/sane.h).
inline constexpr int64_t kLatestSaneNs = int64_t{1} << 61;
static_assert(kLatestSaneNs <= std::numeric_limits<int64_t>::max() / 2);

// Since a boot, or since the epoch.
constexpr bool IsSaneNs(int64_t time_ns) { return time_ns > 0 && time_ns < kLatestSaneNs; }

}  // namespace shardscope
