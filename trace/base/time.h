// Time is int64_t nanoseconds of CLOCK_MONOTONIC everywhere, in names that end in _ns. Floats
// appear only where a view turns time into pixels, after subtracting the view's start.
#pragma once

#include <cstdint>

namespace shardscope {

inline constexpr int64_t kNsPerUs = 1'000;
inline constexpr int64_t kNsPerMs = 1'000'000;
inline constexpr int64_t kNsPerSecond = 1'000'000'000;

// CLOCK_MONOTONIC in nanoseconds.
int64_t MonotonicNs();

// CLOCK_REALTIME in nanoseconds since the epoch.
int64_t RealtimeNs();

// CPU time that the calling thread has used, in nanoseconds.
int64_t ThreadCpuNs();

// Sleeps until MonotonicNs() >= deadline_ns; returns at once if it is past.
void SleepUntilNs(int64_t deadline_ns);

}  // namespace shardscope
