// What a rank sends in a step of each Schedule, by communicator and kind of collective. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct Traffic {
  query::ScheduleId schedule;
  std::string schedule_name;
  std::string communicator;  // without the number of the group: "shard"
  query::OpClass kind = query::OpClass::kAllGather;
  // Of one rank in one step, as recorded; the mean where collectives are missing.
  double calls = 0;
  double wire_bytes = 0;
};

// By Schedule, communicator and kind. Steps of which a rank recorded nothing do not count.
std::vector<Traffic> TrafficOf(const query::Snapshot& snapshot);

}  // namespace shardscope::analysis
