// What dumps of PyTorch's flight recorder say: tables flight_entry and flight_group.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/base/words.h"

namespace shardscope::query {

using words::FlightState;

// A collective, send or receive that a rank asked for.
struct FlightEntry {
  int32_t rank = 0;
  int32_t stack = 0;      // index into Snapshot::names; 0: none
  int64_t sequence = -1;  // of its group; of sends and receives their own
  int64_t record = -1;
  int64_t created_ns = 0;
  FlightState state = FlightState::kScheduled;
  bool is_p2p = false;
  std::string group;
  std::string name;   // nccl:all_gather
  std::string input;  // "Float [4, 2], Float [8]"
  std::string output;
};

// What one rank says of one of its groups; sequences are -1 if they are not told.
struct FlightGroup {
  int32_t rank = 0;
  std::string name;
  std::string description;
  std::vector<int32_t> members;  // ascending
  int64_t last_enqueued = -1;
  int64_t last_started = -1;
  int64_t last_completed = -1;
};

}  // namespace shardscope::query
