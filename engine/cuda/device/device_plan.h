// DevicePlan: what the host has to do around each op of a program on a GPU: which events to record
// and to wait for. Computed once a Schedule from the executor's StepPlan.
#pragma once

#include <vector>

#include "engine/executor/step_plan.h"
#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::cuda {

struct OpPlan {
  std::vector<plan::OpIndex> event_waits;       // ops behind whose event the stream waits
  std::vector<plan::StreamIndex> stream_waits;  // streams whose work so far it waits for
  std::vector<plan::OpIndex> host_waits;        // ops behind whose event the host waits
  std::vector<plan::BufferId> frees;            // buffers to give back before it allocates
  plan::OpIndex host_op_before = plan::kNone;   // host op whose work its stream must not outrun
  bool needs_event = false;                     // its end is waited for
};

struct DevicePlan {
  executor::StepPlan step;  // for the causes of stalls
  std::vector<OpPlan> ops;
  std::vector<plan::BufferId> frees_at_end;  // to give back once all streams are done
};

// `free_late`: see CudaRunnerOptions. Errors: those of MakeStepPlan.
Result<DevicePlan> MakeDevicePlan(const plan::Schedule& schedule, const plan::Program& program,
                                  bool free_late);

}  // namespace shardscope::cuda
