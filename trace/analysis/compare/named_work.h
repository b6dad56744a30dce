// Kernels and operators of the middle steps of a side, by name.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "trace/analysis/compare/side.h"
#include "trace/query/snapshot.h"

namespace shardscope::analysis {

struct NamedWork {
  int64_t count = 0;
  int64_t duration_ns = 0;
};

struct WorkByName {
  bool of_gpu = false;                     // kernels and copies; else what the host's threads did
  std::map<std::string, NamedWork> names;  // sums over the middle steps and ranks
};

// Kernels, copies and memsets of the GPU, by the step that launched them; a trace without rows of a
// GPU has the ranges and operators of its threads, by the step in which they began, without the
// time of those inside of them. What is named after a step ("ProfilerStep#5") is left out.
WorkByName WorkOf(const query::Snapshot& snapshot, const MeasuredSide& side);

}  // namespace shardscope::analysis
