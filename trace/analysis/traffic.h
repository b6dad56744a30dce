// What a rank sends in a step of each Schedule, by communicator and kind of collective. Pure
// functions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// Of one rank in one step, as planned; of the program that sends most, where ranks have several.
struct Traffic {
  std::string communicator;
  query::OpClass kind = query::OpClass::kAllGather;
  int64_t calls = 0;
  int64_t wire_bytes = 0;
};

// Of every Schedule: by communicator and kind.
std::map<query::ScheduleId, std::vector<Traffic>> TrafficOf(const query::Snapshot& snapshot);

}  // namespace shardscope::analysis
