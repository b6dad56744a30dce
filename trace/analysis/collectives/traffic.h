// What a rank sends in a step of each Schedule, by communicator and kind of collective. Pure
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Of one rank in one step, as planned. What it only receives is not among it.
struct Traffic {
  std::string communicator;
  query::OpClass kind = query::OpClass::kAllGather;
  int64_t calls = 0;
  int64_t wire_bytes = 0;

  bool operator==(const Traffic&) const = default;
};

struct RankTraffic {
  // The rank that sends most, the smallest of several; none: all ranks send the same.
  std::optional<int32_t> rank;
  std::vector<Traffic> rows;  // by communicator and kind
};

// Of every Schedule that sends anything.
std::map<query::ScheduleId, RankTraffic> TrafficOf(const query::Snapshot& snapshot);

}  // namespace shardscope::analysis
