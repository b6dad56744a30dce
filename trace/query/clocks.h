// What the source of a run says of its processes and their clocks, as facts of a Snapshot.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::query {

// Takes a row of `meta`, if it is about a clock (trace/store/merge/clock_facts.h).
void TakeClock(const std::string& key, const std::string& value, std::vector<Clock>* clocks);

// Takes a row of `meta`, if it names one of the run's processes (trace/store/run_source.h).
inline constexpr int64_t kMostProcesses = 1 << 16;
void TakeProcess(const std::string& key, const std::string& value,
                 std::map<int64_t, Process>* processes);

// How far the times of different clocks can be trusted, in words; none for a run on one clock.
std::optional<Capability> ClockCapability(const std::vector<Clock>& clocks);

}  // namespace shardscope::query
