// SnapshotBuilder: rows of a Source into Snapshots. Owner and only user: one reader thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "trace/query/derived_maker.h"
#include "trace/query/gpu_snapshot_builder.h"
#include "trace/query/snapshot.h"
#include "trace/store/row_batch.h"
#include "trace/store/source.h"

namespace shardscope::query {

class SnapshotBuilder {
 public:
  SnapshotBuilder(std::string run_folder, std::string name);
  SnapshotBuilder(const SnapshotBuilder&) = delete;  // its parts refer to one another

  // Takes new rows. A row that cannot be (negative rank, times out of order, unknown word) is left
  // out and counted as lost (capability source "reader").
  void Add(const store::RowBatch& batch);

  // A Snapshot of all rows so far; shares their storage with earlier ones.
  SnapshotPtr Publish(store::SourceState state);

  // All that a Snapshot would have now.
  const Snapshot& rows() const { return current_; }

  // Before any row: gives communicators and memory's units the indices that they have in `other`,
  // and counts the rows that it has left out.
  void GoOnFrom(const SnapshotBuilder& other);

  // The next Snapshot has the one after this.
  void SetGeneration(uint64_t generation) { current_.generation = generation; }

  // Whether rows that were there when the run was opened wait to be read.
  void SetBehind(bool is_behind) { current_.is_behind = is_behind; }

  // Only rows of this part of the run come.
  void SetPart(const RunPart& part) { current_.part = part; }

  // Of rows that are only some of a finished trace; its rows are replaced by another builder's.
  SnapshotPtr PublishLoading(store::SourceState state);

  // Those that it has so far, ascending.
  std::vector<int32_t> Ranks() const;

  // Its rows become the Snapshot's; those that were left out are counted as by Add().
  void SetDerived(Derived derived);

  // Most rows do not come: of so many op runs they are in derived rows only.
  void SetSummary(int64_t num_op_runs) { current_.summed_op_runs = num_op_runs; }

  // Tells times of rows that are not added.
  void Extend(int64_t from_ns, int64_t to_ns);

 private:
  friend class GpuSnapshotBuilder;

  void AddMeta(const store::RowBatch& batch);
  void AddRanks(const store::RowBatch& batch);
  void AddMarkers(const store::RowBatch& batch);
  void AddRecording(const store::RowBatch& batch);  // how it was recorded, and what that cost
  void AddPlan(const store::RowBatch& batch);
  void AddOpRuns(const store::RowBatch& batch);
  void AddSteps(const store::RowBatch& batch);
  void AddPauses(const store::RowBatch& batch);
  void AddCheckpoints(const store::RowBatch& batch);
  void AddEvaluations(const store::RowBatch& batch);
  void AddCollectives(const store::RowBatch& batch);
  void AddMemory(const store::RowBatch& batch);
  void AddFlights(const store::RowBatch& batch);  // after the names
  RankRows* RowsOfRank(int64_t rank);
  void LearnPlaces();
  // Of the plan so far; what was one stays one.
  bool IsPlanOp(PlanOpId id);
  void AddRankOfProcess(int64_t process, int32_t rank);
  int32_t Communicator(std::string_view name);
  uint64_t MemoryUnit(std::string_view name);
  void Refuse() { ++refused_; }

  Snapshot current_;
  std::map<std::string, int32_t, std::less<>> communicator_index_;
  std::map<std::string, uint64_t, std::less<>> memory_unit_index_;
  bool has_time_ = false;
  std::vector<uint32_t> place_of_rank_;  // in current_.ranks; UINT32_MAX: none
  std::vector<bool> met_plan_ops_;       // by id: IsPlanOp() has said so
  int64_t refused_ = 0;
  GpuSnapshotBuilder gpu_builder_{this};
};

}  // namespace shardscope::query
