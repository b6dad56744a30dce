// What each moment of a step was for: the parts of the identity, op by op. Internal to analysis.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "trace/analysis/row_index.h"
#include "trace/base/enum_count.h"
#include "trace/base/interval.h"

namespace shardscope::analysis {

// compute + exposed + exposed copy + idle == step (trace/analysis/steps/time_split.h).
enum class StepPart : uint8_t { kCompute, kExposed, kExposedCopy, kIdle };
inline constexpr size_t kNumStepParts = kCountOf<StepPart>;

// "compute", "exposed communication", "exposed copy", "idle".
std::string_view Name(StepPart part);

struct PathPiece {
  StepPart part = StepPart::kIdle;
  int64_t duration_ns = 0;
  const IndexedRun* run = nullptr;  // idle: what began then; nullptr: the step ended
};

// Every moment of `span` goes to one part: compute where anything computes, else communication,
// else copies, else idle; and within it to the op of that part that had begun first. So the pieces
// add up to the length of `span`, and those of a part to that part of Breakdowns(). `span`: from
// the start to the end of the step, with start_ns <= end_ns. Borrows `step`.
std::vector<PathPiece> PathOf(const StepIndex& step, Interval span);

}  // namespace shardscope::analysis
