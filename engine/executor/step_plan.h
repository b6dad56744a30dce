// StepPlan: a program's waits, resolved once so that stream threads only look them up.
#pragma once

#include <vector>

#include "engine/executor/execution_sink.h"
#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::executor {

// An op that must have ended before another may start on its stream, and why.
struct Wait {
  plan::OpIndex op = plan::kNone;
  BlockingKind kind = BlockingKind::kNone;
};

struct StepPlan {
  std::vector<std::vector<Wait>> waits;  // per op; explicit and implied ones
  std::vector<bool> takes_slot;          // per op: needs a compute slot
};

// Fails if an op names a stream that does not exist or waits for itself or a later op: such a
// program would hang.
Result<StepPlan> MakeStepPlan(const plan::Schedule& schedule, const plan::Program& program);

}  // namespace shardscope::executor
