// Critical path: the longest chain of a step over all ranks, from the end of the rank that is done
// last back to the start. What is on it holds the step up; what is not costs nothing. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/base/words.h"
#include "trace/query/snapshot.h"
#include "trace/query/step_times.h"

namespace shardscope::analysis {

using words::kNumPathKinds;
using words::ParsePathKind;
using words::PathKind;

// A stretch of the path of one step; stretches of a step follow one another without a gap.
struct PathPart {
  int32_t step = 0;
  int32_t rank = 0;
  PathKind kind = PathKind::kWait;
  query::OpRunId op_run = query::OpRunId::None();  // that ran, or had to wait; none: the step ended
  std::string name;                                // short name of that op, or "end"
  std::string phase;  // of that op; what is recomputed is a phase of its own
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// All of a step's path that is of one rank, kind and name.
struct PathShare {
  int32_t step = 0;
  int32_t rank = 0;
  PathKind kind = PathKind::kWait;
  std::string name;  // of compute its PathPart::phase, of transfers the op, else empty
  int64_t path_ns = 0;
};

// Of the steps of [first_step, last_step] that all ranks have finished, in time order of each step.
// A step goes from the start of the rank that begins last to the end of the one that ends last.
// Where an op waited for a collective, the path goes on with the rank that came to it last; where
// the host issued it late, with what the host did or waited for before.
std::vector<PathPart> CriticalPath(const query::Snapshot& snapshot, int first_step, int last_step);
struct StepRows;  // row_index.h
std::vector<PathPart> CriticalPath(const StepRows& rows);

// The newest step that has a path.
using query::NewestStepOfAll;

// The same added up, by step; also of a snapshot that has derived rows instead of op runs.
std::vector<PathShare> PathShares(const query::Snapshot& snapshot, int first_step, int last_step);
std::vector<PathShare> PathShares(const StepRows& rows);

// Over all steps, dearest first.
struct PathGroup {
  PathKind kind = PathKind::kWait;
  std::string name;
  double ns_per_step = 0;
  double share = 0;  // of the whole path
};
std::vector<PathGroup> GroupPath(const std::vector<PathShare>& shares);

// The path of one step, and what its parts add up to.
struct StepPath {
  int32_t step = -1;
  std::vector<PathPart> parts;    // empty: not all ranks have finished it, or its ops are not there
  std::vector<PathGroup> groups;  // dearest first, what a report of this step alone has
};
StepPath PathOfStep(const query::Snapshot& snapshot, int32_t step);

}  // namespace shardscope::analysis
