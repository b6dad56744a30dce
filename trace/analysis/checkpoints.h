// The checkpoints that a run wrote, what they took of it, and the one that it went on from. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trace/base/resumed_from.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

// One checkpoint, of all ranks whose rows are there.
struct CheckpointFigures {
  int32_t step = 0;  // before which it was taken
  int num_ranks = 0;
  int64_t bytes = 0;    // of their files
  int64_t wait_ns = 0;  // at most a rank's: until the checkpoint before was written
  int64_t copy_ns = 0;  // at most a rank's: with the above, what the training waited for
  // From the last copy until all of it was there; while the next steps ran.
  int64_t write_ns = 0;
  bool is_whole = false;
  std::string folder;  // of a whole one
  std::string error;   // the first rank's that could not write
};

// In the order of their copies.
std::vector<CheckpointFigures> CheckpointsOf(const query::Snapshot& snapshot);

// None: the run began with its first step.
std::optional<ResumedFrom> ResumedFromOf(const query::Snapshot& snapshot);

// A line of a report's head; empty without one.
std::string Describe(const std::optional<ResumedFrom>& resumed);

// The section of a report; empty without checkpoints. `num_steps`: those that the same part of the
// run has, which together took `steps_ns`.
std::string PrintCheckpoints(const std::vector<CheckpointFigures>& checkpoints, int64_t num_steps,
                             int64_t steps_ns);

}  // namespace shardscope::analysis
