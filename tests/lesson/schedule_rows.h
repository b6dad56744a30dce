// ScheduleRows: a Schedule and what an executor reports of it, as rows of a TestSnapshot.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "engine/executor/execution_sink.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {

// Knows Schedules with one program. Ranks report one after another.
class ScheduleRows : public executor::ExecutionSink {
 public:
  // `test` outlives this.
  explicit ScheduleRows(TestSnapshot* test) : test_(*test) {}

  // Plan ops of the snapshot's newest schedule. `schedule` outlives this.
  void Add(const plan::Schedule& schedule);

  void OnOpEnd(const executor::OpContext& context, const executor::OpTimes& times) override;
  void OnMemory(const executor::OpContext& context, plan::BufferId buffer, int64_t bytes,
                int64_t issued_ns, int64_t executed_ns) override;
  void OnOtherMemory(const executor::OpContext& context,
                     const executor::MemoryChange& change) override;

 private:
  query::PlanOpId AddOp(const plan::Schedule& schedule, plan::OpIndex index,
                        const std::vector<query::PlanOpId>& ids);
  query::PlanOpId PlanOp(const executor::OpContext& context, plan::OpIndex index) const;

  TestSnapshot& test_;
  std::map<const plan::Schedule*, std::vector<query::PlanOpId>> plan_ops_;  // by op
};

}  // namespace shardscope::analysis
