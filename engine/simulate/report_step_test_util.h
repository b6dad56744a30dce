// For tests: a simulated step, told as a whole.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "engine/executor/execution_sink.h"
#include "engine/plan/schedule.h"
#include "engine/simulate/simulate.h"

namespace shardscope::simulate {

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
