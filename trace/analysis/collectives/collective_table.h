// CollectiveTable: collectives added up by what they do, for whom and among whom, by step, and as
// points of size and bandwidth. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/analysis/collectives/communication_matrix.h"
#include "trace/analysis/scope.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// What a row is of; empty: of all.
struct CollectiveGroupKey {
  std::string kind;          // "all_gather"
  std::string unit;          // "block0"
  std::string communicator;  // "shard", "shard/1"
  auto operator<=>(const CollectiveGroupKey&) const = default;
};

// Sums over ranks and steps; a rank's part of a collective is one call. Wait and transfer are split
// where the last rank arrives (trace/analysis/collectives/collectives.h).
struct CollectiveSums {
  int64_t calls = 0;
  int64_t payload_bytes = 0;
  int64_t wire_bytes = 0;
  int64_t wait_ns = 0;
  int64_t transfer_ns = 0;
  int64_t exposed_ns = 0;    // of wait and transfer: no compute of the rank hides it
  bool is_emulated = false;  // some of it: its transfer is no measurement

  void Add(const CollectiveSums& other);
  // Weighted by size: all bytes on the wire over all time of transfers; 0 if they took none.
  double bus_bandwidth() const;
};

struct CollectiveGroup {
  CollectiveGroupKey key;
  CollectiveSums sums;
  // The call that took longest.
  query::OpRunId longest = query::OpRunId::None();
  int64_t longest_ns = -1;
  int32_t longest_rank = 0;
  int32_t longest_step = 0;
};

struct CollectiveStep {
  int32_t step = 0;
  CollectiveSums sums;
};

// One collective, over all its ranks.
struct CollectivePoint {
  size_t group = 0;           // index into CollectiveTable::groups
  int64_t payload_bytes = 0;  // of one rank
  double bus_bandwidth = 0;   // above 0
  query::OpRunId op_run;      // of the rank that came last
  int32_t rank = 0;
  int32_t step = 0;
};
inline constexpr size_t kMostCollectivePoints = 4000;

struct CollectiveTable {
  ScopedSteps scope;
  int64_t num_rank_steps = 0;           // of the timed steps: finished ones of each rank
  std::vector<CollectiveGroup> groups;  // by key
  std::vector<CollectiveStep> steps;    // ascending
  // By step; of more than kMostCollectivePoints every second, third, ...
  std::vector<CollectivePoint> points;
  CommunicationMatrix matrix;  // of the same steps
};

// Of the timed steps of the scope. `snapshot` has all their rows.
CollectiveTable MakeCollectiveTable(const query::Snapshot& snapshot, const ScopedSteps& scope);

enum class CollectiveMerge : uint8_t { kNothing, kKind, kUnit, kDimension };
// Rows that agree in this as one, by key. A dimension of the mesh is what communicators are named
// after: "shard" of "shard/1".
std::vector<CollectiveGroup> Merged(const std::vector<CollectiveGroup>& groups,
                                    CollectiveMerge merge);

// The groups as a table of a terminal.
std::string PrintCollectives(const CollectiveTable& table);

}  // namespace shardscope::analysis
