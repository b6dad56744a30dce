// TestSnapshot: builds Snapshots by hand, for tests of analysis and of the app's panels.
//
//   TestSnapshot test(2);
//   const query::PlanOpId gather = test.Plan("all_gather", "forward", "block0");
//   const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp", {gather});
//   test.Run(0, 0, gather, 0, 10);
//   test.Run(0, 0, forward, 10, 30);
//   test.Step(0, 0, 0, 40);
//   query::SnapshotPtr snapshot = test.Build();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trace/query/snapshot.h"

namespace shardscope::analysis {

class TestSnapshot {
 public:
  // Ranks 0 .. num_ranks - 1, each with the tracks host, compute, copy, all_gather, reduce_scatter,
  // all_reduce; one schedule with id 1; one communicator, "shard".
  explicit TestSnapshot(int num_ranks);

  // Ops planned from here on belong to a new schedule, with the next id.
  void NextSchedule(const std::string& name);

  // The next op in host order; returns its plan op id. Name, class, category and stream follow from
  // `kind` (the words of the trace: "all_gather", "copy_out", "forward", ...). Edges go to
  // `predecessors`.
  query::PlanOpId Plan(const std::string& kind, const std::string& phase,
                       const std::string& unit = "", const std::string& segment = "",
                       const std::vector<query::PlanOpId>& predecessors = {});
  query::PlanOp& op(query::PlanOpId plan_op) { return snapshot_.plan_ops.at(plan_op); }

  // One op run, on the track that its stream names; issued and ready when it started. Change the
  // returned row before the next call. A collective gets its collective row: sequence = how many of
  // its communicator this rank ran before.
  query::OpRun& Run(int32_t rank, int32_t step, query::PlanOpId plan_op, int64_t started_ns,
                    int64_t ended_ns);
  query::Collective& last_collective(int32_t rank) { return rows(rank).collectives.back(); }

  query::Step& Step(int32_t rank, int32_t step, int64_t start_ns, int64_t end_ns);

  // In both ledgers at `time_ns`, unless the returned row is changed.
  query::MemoryEvent& Memory(int32_t rank, query::MemoryCategory category, int64_t time_ns,
                             int64_t bytes, const std::string& unit = "");

  // Everything else is open: meta, config, markers, capabilities, truth, state, name.
  query::Snapshot& snapshot() { return snapshot_; }

  // Rows added so far; may go on being added to and built again, as a live run does.
  query::SnapshotPtr Build();

 private:
  // Rows that can still be changed; Build() moves them into the append-only lists.
  struct Rows {
    std::vector<query::OpRun> op_runs;
    std::vector<query::Step> steps;
    std::vector<query::Collective> collectives;
    std::vector<query::MemoryEvent> memory;
    int64_t next_sequence = 0;
  };
  Rows& rows(int32_t rank) { return rows_[static_cast<size_t>(rank)]; }

  query::Snapshot snapshot_;
  std::vector<Rows> rows_;
  int64_t next_op_run_ = 1;
  int32_t next_op_ = 0;  // in the newest schedule
};

}  // namespace shardscope::analysis
