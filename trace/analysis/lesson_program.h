// LessonProgram: the ops of one step of the prefetch lesson. Test support only.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "trace/analysis/test_snapshot.h"

namespace shardscope::analysis {

struct LessonUnit {
  std::string name;
  std::vector<std::pair<std::string, int64_t>> segments;  // name, forward time
  int64_t bytes = 0;                                      // fp32, unsharded
  int64_t activation_bytes = 0;                           // per segment
};

// dim 256, 1024 tokens a rank: 12 dim^2 parameters a block.
std::vector<LessonUnit> LessonUnits();

struct MemoryChange {
  query::MemoryCategory category = query::MemoryCategory::kOther;
  int64_t bytes = 0;  // signed: allocations when the op starts, frees when it ends
};

// In host order.
struct LessonOp {
  int64_t plan_op = 0;
  int64_t duration_ns = 0;    // of compute and host ops, before jitter; else from bytes
  int64_t bytes = 0;          // moved by a copy
  std::vector<size_t> waits;  // indices of earlier ops
  std::vector<MemoryChange> memory;
};

// Adds the step's plan ops to `test`. `prefetch`: forward prefetch 1 and backward prefetch "pre".
std::vector<LessonOp> PlanLesson(TestSnapshot* test, int ranks, bool prefetch);

}  // namespace shardscope::analysis
