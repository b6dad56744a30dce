// Collectives split at the last rank's arrival into wait and transfer. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// One rank's part of one collective.
struct CollectiveRun {
  query::OpRunId op_run;
  query::PlanOpId plan_op;
  int32_t rank = 0;
  int32_t step = 0;
  std::string name;  // "B m0 block3 all_gather"
  int32_t communicator = 0;
  int64_t sequence = 0;
  int64_t started_ns = 0;       // this rank arrived
  int64_t last_arrival_ns = 0;  // the last rank arrived
  int32_t last_rank = -1;
  query::OpRunId last_op_run = query::OpRunId::None();  // of that rank
  int32_t other_rank = -1;  // that is in it too, the smallest (a send or receive has one); -1: none
  int64_t ended_ns = 0;
  int64_t wait_ns = 0;      // last arrival - started
  int64_t transfer_ns = 0;  // ended - last arrival
  int64_t payload_bytes = 0;
  int64_t wire_bytes = 0;
  double bus_bandwidth = 0;  // wire bytes / transfer, bytes per second; 0 if it took no time
  bool complete = true;      // false: some rank's row is missing, so wait is a lower bound
};

// What one rank did in one collective.
struct CollectiveMember {
  query::RowRef<query::OpRun> run;
  query::RowRef<query::Collective> row;
};

// Calls visit(members) for each collective of steps [first_step, last_step]: those of its ranks
// that have come, in order of their arrival, equal ones by rank; never none. By communicator and
// sequence.
void ForEachCollective(const query::Snapshot& snapshot, int first_step, int last_step,
                       const std::function<void(std::span<const CollectiveMember> members)>& visit);

// The rank that comes last: of those that arrive together the smallest.
const CollectiveMember& LastOf(std::span<const CollectiveMember> members);

// Whether all ranks of its group have come.
inline bool IsComplete(std::span<const CollectiveMember> members) {
  return static_cast<int64_t>(members.size()) >= members.front().row->group_size;
}

// Sets wait, transfer and bus bandwidth from the three times.
void SplitAtArrival(CollectiveRun* run);

// The kSlowest that took longest, longest first.
inline constexpr size_t kSlowest = 20;
std::vector<CollectiveRun> Slowest(std::vector<CollectiveRun> runs);

// All collectives of step range [first_step, last_step], in time order per rank, equal times by op
// run.
std::vector<CollectiveRun> Collectives(const query::Snapshot& snapshot, int first_step,
                                       int last_step);

}  // namespace shardscope::analysis
