// What values of a file can be: it may claim anything, and no sum or difference may overflow.
#pragma once

#include <cstdint>
#include <limits>

#include "trace/base/sane_time.h"
#include "trace/store/source.h"

namespace shardscope::query {

inline constexpr int64_t kMaxRank = 1 << 20;  // OpRun::rank has 24 bits
inline constexpr int64_t kMaxCount = int64_t{1} << 40;
inline constexpr int64_t kMaxBytes = int64_t{1} << 48;
inline constexpr int64_t kMaxPartNs = int64_t{1} << 60;  // 36 years

inline bool SaneCount(int64_t count) { return count >= -kMaxCount && count <= kMaxCount; }
inline bool SaneBytes(int64_t bytes) { return bytes > -kMaxBytes && bytes < kMaxBytes; }

// Nanoseconds of a row of a trace, as it stands there; IsSaneNs() (trace/base/sane_time.h) is for
// times that something is still added to. Differences of times do not overflow, nor sums of three
// parts of a step less a time.
constexpr bool SaneTime(int64_t time_ns) { return time_ns >= 0 && time_ns < (int64_t{1} << 62); }
static_assert(SaneTime(2 * (kLatestSaneNs - 1)));
inline bool SaneStretch(int64_t start_ns, int64_t end_ns) {
  return SaneTime(start_ns) && SaneTime(end_ns) && start_ns <= end_ns;
}
inline bool SanePart(int64_t part_ns) { return part_ns >= 0 && part_ns < kMaxPartNs; }

inline bool FitsInt32(int64_t value) {
  return value >= std::numeric_limits<int32_t>::min() &&
         value <= std::numeric_limits<int32_t>::max();
}

inline bool IsStep(int64_t value) { return value >= -1 && value <= store::kMaxStep; }
// Of an op: a step, or below -1 a batch of an evaluation.
inline bool IsStepOfOp(int64_t value) {
  return value >= -store::kMaxStep && value <= store::kMaxStep;
}

}  // namespace shardscope::query
