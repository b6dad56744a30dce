// For tests: a simulated step, told to a sink.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/executor/execution_sink.h"
#include "engine/plan/schedule.h"
#include "engine/simulate/simulate.h"

namespace shardscope::simulate {

// Tells `sink` of an op run and the memory of its buffers, as an executor would.
inline void ReportOp(const executor::OpContext& context, const executor::OpTimes& times,
                     executor::ExecutionSink* sink) {
  sink->OnOpEnd(context, times);
  for (const plan::BufferId id : context.op().allocates) {
    sink->OnMemory(context, id, context.buffer(id).bytes, times.issued_ns, times.started_ns);
  }
  for (const plan::BufferId id : context.op().frees) {
    sink->OnMemory(context, id, -context.buffer(id).bytes, times.issued_ns, times.ended_ns);
  }
}

// All op runs of the step, rank by rank, in the order in which they end.
inline void ReportStep(const plan::Schedule& schedule, int64_t step, const StepTimes& times,
                       executor::ExecutionSink* sink) {
  executor::OpContext context;
  context.schedule = &schedule;
  context.step = step;
  for (context.rank = 0; context.rank < schedule.num_ranks(); ++context.rank) {
    const std::vector<executor::OpTimes>& ops = times[static_cast<size_t>(context.rank)];
    context.program = &schedule.ProgramOf(context.rank);
    std::vector<plan::OpIndex> order(ops.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&ops](plan::OpIndex a, plan::OpIndex b) {
      return ops[static_cast<size_t>(a)].ended_ns < ops[static_cast<size_t>(b)].ended_ns;
    });
    for (const plan::OpIndex index : order) {
      context.index = index;
      context.issued_ns = ops[static_cast<size_t>(index)].issued_ns;
      ReportOp(context, ops[static_cast<size_t>(index)], sink);
    }
  }
}

}  // namespace shardscope::simulate
