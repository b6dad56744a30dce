// Times to the microsecond, as the command line and the app write them, without their unit.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// "12.345"
inline std::string ExactMs(int64_t duration_ns) {
  return fmt::format("{:.3f}", static_cast<double>(duration_ns) / 1e6);
}

// "0.012345": from the start of the run, in seconds. With " s" ParseMoment() (moment.h) takes it.
inline std::string SecondsFromStart(const query::Snapshot& snapshot, int64_t time_ns) {
  return fmt::format("{:.6f}", static_cast<double>(time_ns - snapshot.RunStartNs()) / 1e9);
}

}  // namespace shardscope::analysis
