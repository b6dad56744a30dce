// Waits between streams as CUPTI saw them, against those that the Schedule plans: what view
// v_edge_check says in SQL (trace/schema/views.sql defines it). Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// `missing`: planned, and no wait as strong was seen. Else: seen, and none as strong is planned.
struct EdgeDifference {
  int32_t rank = 0;
  int32_t step = 0;
  query::PlanOpId from_plan_op = query::PlanOpId::None();
  query::PlanOpId to_plan_op = query::PlanOpId::None();  // that waits, or should have
  bool missing = false;
};

// Differences at the same place of the Schedule, over ranks and steps.
struct EdgeGroup {
  std::string from;  // names of ops
  std::string to;
  bool missing = false;
  int64_t count = 0;
  EdgeDifference first;
};

struct EdgeCheck {
  int64_t seen = 0;     // waits between streams, all of them
  int64_t planned = 0;  // in the steps that were compared: as many as had to be seen
  int64_t missing = 0;
  int64_t extra = 0;
  // By rank, step and place; at most kMostDifferences.
  std::vector<EdgeDifference> differences;
  std::vector<EdgeGroup> groups;  // of those; most frequent first

  bool compared() const { return planned > 0 || extra > 0; }
  // nullptr if the wait of `to_plan_op` for `from_plan_op` differs in no way.
  const EdgeDifference* Find(int32_t rank, int32_t step, query::PlanOpId from_plan_op,
                             query::PlanOpId to_plan_op) const;
};
inline constexpr size_t kMostDifferences = 4096;

// While the trace grows, the newest step of each rank is not compared: its waits are still coming.
// Nor is anything of a Snapshot with only some rows.
EdgeCheck CheckEdges(const query::Snapshot& snapshot);

// The section of a report; empty without waits and without anything to compare.
std::string PrintEdges(const EdgeCheck& check);

}  // namespace shardscope::analysis
