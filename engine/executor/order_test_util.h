// What the recorded times of a step promise, whoever ran it: threads of the CPU or virtual time.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "engine/executor/step_plan.h"
#include "trace/base/check.h"

namespace shardscope::executor {

inline void ExpectOrders(const plan::Program& program,
                         const std::map<plan::OpIndex, OpTimes>& times) {
  ASSERT_EQ(times.size(), program.ops.size());
  const auto predecessors = plan::AllPredecessors(program);
  int64_t last_issued_ns = 0;
  for (const auto& [index, time] : times) {
    EXPECT_LE(last_issued_ns, time.issued_ns) << index;
    last_issued_ns = time.issued_ns;
    EXPECT_LE(time.issued_ns, time.ready_ns) << index;
    EXPECT_LE(time.ready_ns + time.slot_wait_ns, time.started_ns) << index;
    EXPECT_LE(time.started_ns, time.ended_ns) << index;
    int64_t last_end_ns = 0;
    for (const plan::OpIndex before : predecessors[static_cast<size_t>(index)]) {
      last_end_ns = std::max(last_end_ns, times.at(before).ended_ns);
    }
    EXPECT_EQ(time.ready_ns, std::max(time.issued_ns, last_end_ns)) << index;
    for (const plan::Dependency& wait : program.ops[static_cast<size_t>(index)].dependencies) {
      if (wait.kind != plan::DependencyKind::kHost) continue;
      EXPECT_LE(times.at(wait.target).ended_ns, time.issued_ns) << index;
    }
  }
}

// The cause of every op by its definition, from the times alone.
inline void ExpectCauses(const plan::Schedule& schedule, const plan::Program& program,
                         const std::map<plan::OpIndex, OpTimes>& times) {
  const Result<StepPlan> step_plan = MakeStepPlan(schedule, program);
  SHARDSCOPE_CHECK(step_plan.ok());
  std::vector<plan::OpIndex> host_targets;  // of the ops so far
  for (const auto& [index, time] : times) {
    for (const plan::Dependency& wait : program.ops[static_cast<size_t>(index)].dependencies) {
      if (wait.kind == plan::DependencyKind::kHost) host_targets.push_back(wait.target);
    }
    int64_t last_end_ns = 0;
    bool is_last = false;  // the blocking op is one that ended last, and waited for in this way
    for (const Wait& wait : step_plan->waits[static_cast<size_t>(index)]) {
      const int64_t end_ns = times.at(wait.op).ended_ns;
      if (end_ns > last_end_ns) is_last = false;
      last_end_ns = std::max(last_end_ns, end_ns);
      if (end_ns == last_end_ns) {
        is_last |= wait.op == time.blocking_op && wait.kind == time.blocking_kind;
      }
    }
    switch (time.blocking_kind) {
      case BlockingKind::kNone:
        EXPECT_LE(last_end_ns, time.issued_ns) << index;
        EXPECT_EQ(time.blocking_op, plan::kNone) << index;
        break;
      case BlockingKind::kHost:
        EXPECT_LE(last_end_ns, time.issued_ns) << index;
        EXPECT_NE(std::count(host_targets.begin(), host_targets.end(), time.blocking_op), 0);
        EXPECT_GT(times.at(time.blocking_op).ended_ns, last_end_ns) << index;
        break;
      case BlockingKind::kSlot:
        EXPECT_GT(time.slot_wait_ns, time.ready_ns - time.issued_ns) << index;
        break;
      default:
        EXPECT_GT(last_end_ns, time.issued_ns) << index;
        EXPECT_TRUE(is_last) << index;
    }
  }
}

}  // namespace shardscope::executor
