// One step of a Schedule in virtual time: all its ranks, with given durations, in the order and
// with the waits that the executor has. What comes out is what an executor reports, so that
// the same sinks make rows of it; such rows are projected, not measured. No threads, no clock: the
// same input gives the same times. No LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/executor/execution_sink.h"
#include "engine/plan/schedule.h"
#include "trace/base/status.h"

namespace shardscope::simulate {

// What an op takes.
struct OpCost {
  int64_t issue_ns = 0;    // of the host, until the op is issued
  int64_t return_ns = 0;   // of the host, behind that, until it turns to the next op
  int64_t latency_ns = 0;  // from the issue to the earliest start
  // From start to end. Where ranks meet, in collectives and in the control op: from the start of
  // the last rank. Communicators that share a link slow each other down only as far as this says.
  int64_t duration_ns = 0;
};

struct StepInput {
  std::vector<std::vector<OpCost>> costs;  // by rank and op
  std::vector<int64_t> start_ns;           // by rank: when its host turns to the first op
  int compute_slots = 0;                   // for the compute ops of all ranks; 0: no limit
};

// By rank and op. Nothing is known of CPU time.
using StepTimes = std::vector<std::vector<executor::OpTimes>>;

// Of events at one moment, ends come first, then ranks and ops in their order: a slot goes to the
// lower rank. Errors: those of executor::MakeStepPlan(), and ranks that wait for one another for
// ever.
Result<StepTimes> SimulateStep(const plan::Schedule& schedule, const StepInput& input);

}  // namespace shardscope::simulate
