// How the tests of engine/plan build schedules and write them down shortly.
#pragma once

#include <string>
#include <vector>

#include "engine/plan/policy.h"
#include "engine/plan/schedule.h"

namespace shardscope::plan {

// The policy of most tests: two ranks, everything else at its default.
Policy TwoRanks(Preset preset);

// The toy model with three blocks; a test failure if it cannot be built.
Schedule Build(const Policy& policy, bool root_unit = true);

// Collectives in issue order as "AG1 RS1 AR", "|" after each forward and each backward. Root,
// embedding and head by their first letter, block0 to block2 as units 1 to 3.
std::string CollectiveQueue(const Schedule& schedule);

// All-gathers, reduce-scatters and compute ops of all forwards or backwards in host order:
// "AG1 F1 F1", one F or B a segment.
std::string ForwardOrder(const Schedule& schedule);
std::string BackwardOrder(const Schedule& schedule);

// The position of the only op with that name; a test failure if there is none.
OpIndex IndexOf(const Schedule& schedule, const std::string& op_name);

// Ops from one name to another in host order, with event and stream waits:
// "F m0 block2 copy_out <- F m0 block2 all_gather".
std::vector<std::string> OpsBetween(const Schedule& schedule, const std::string& first,
                                    const std::string& last);

// Every host wait as "op <= what it waits for".
std::vector<std::string> HostWaits(const Schedule& schedule);

// Bytes of some categories in the issue ledger: once the op is issued (before its frees), and the
// most up to there.
using Categories = std::vector<MemoryCategory>;
int64_t LiveAt(const Schedule& schedule, const std::string& op_name, const Categories& categories);
int64_t PeakUntil(const Schedule& schedule, const std::string& op_name,
                  const Categories& categories);

}  // namespace shardscope::plan
