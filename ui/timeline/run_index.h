// RunIndex: the rows of a run arranged for drawing: per rank and lane a sorted column of spans,
// live memory over time; arrivals of collectives across ranks, stalls. Grows with each Snapshot by
// what is new; no ImGui, one thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "trace/analysis/memory/memory.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/analysis/steps/stalls.h"
#include "trace/query/snapshot.h"
#include "ui/timeline/gpu/track_index.h"
#include "ui/timeline/lane_source.h"
#include "ui/timeline/span_column.h"

namespace shardscope::timeline {

inline constexpr uint32_t kNoRow = UINT32_MAX;

// When the last rank of a collective arrived.
struct Arrival {
  int64_t last_ns = INT64_MIN;
  int32_t last_rank = -1;
  int32_t num_ranks = 0;  // arrived so far
};

// An op run, by its row.
struct OpPlace {
  int32_t rank = -1;
  uint32_t row = kNoRow;  // of RankRows::op_runs
};

struct RankIndex {
  explicit RankIndex(int32_t of_rank);

  int32_t rank = 0;
  std::shared_ptr<query::RowList<query::OpRun>> op_runs;  // that the columns read
  std::array<SpanColumn, kNumColumns> columns;            // indexed by LaneKind
  std::vector<const analysis::Stall*> stalls;  // of FindStalls(), ascending start; in its RunIndex
  // Exposed communication of the newest steps, which later rows may still change; what is older is
  // in the column.
  std::vector<Interval> exposed_tail;
  uint32_t num_op_runs = 0;  // rows that were taken
  // Row of an op run, and of RankRows::collectives; ascending.
  std::vector<std::pair<uint32_t, uint32_t>> collectives;
  analysis::MemoryTimeline memory;  // really live
  // What an allocator would report, of ranks with a GPU only: what is freed there stays in use for
  // a while.
  analysis::MemoryTimeline issued_memory;

  TrackIndex tracks;  // streams of its GPU, threads that mark ranges
  std::unordered_map<uint32_t, uint32_t> nccl_of_work;  // row of gpu_work -> row of nccl

  const SpanColumn& column(LaneKind kind) const { return columns[static_cast<size_t>(kind)]; }
};

class RunIndex {
 public:
  RunIndex() = default;
  RunIndex(RunIndex&&) = default;  // no copies: stalls of ranks point into it
  RunIndex& operator=(RunIndex&&) = default;

  // Takes what `snapshot` has beyond the one before; starts anew when it is of another run. Reads
  // at most `max_rows` rows, so that a frame stays short; false: call again to go on.
  bool Advance(const query::Snapshot& snapshot, size_t max_rows = SIZE_MAX);

  // The same of all rows, ranks side by side on every core; false if stopped, once what was begun
  // of a rank is done.
  bool AdvanceAll(const query::Snapshot& snapshot, const std::stop_token& stop);

  // Looks for the stalls of all ranks in `range`, for RankIndex::stalls, in the steps of at least
  // `least_ns`: the stalls of shorter ones are too narrow to see. Looks at no more than `max_steps`
  // that it has not looked at before; false: call again to go on.
  bool FindStalls(const query::Snapshot& snapshot, Range range, int64_t least_ns = 0,
                  size_t max_steps = SIZE_MAX);

  // Grows when a call of Advance() or FindStalls() changed something, and is no other index's: part
  // of the key of cached drawings.
  uint64_t version() const { return version_; }
  // The same of Advance() alone, for what stalls have no part in.
  uint64_t rows_version() const { return rows_version_; }
  const std::vector<RankIndex>& ranks() const { return ranks_; }
  const RankIndex* Find(int32_t rank) const;
  // End of the newest span of all ranks; INT64_MIN before the first.
  int64_t NewestNs() const;

  // nullopt unless this row of the rank is a collective whose row has come.
  std::optional<query::Collective> CollectiveOf(const query::RankRows& rows, const RankIndex& rank,
                                                uint32_t row) const;
  // nullptr if no rank arrived yet.
  const Arrival* ArrivalOf(const query::Collective& collective) const;

  // Where what this op sends is received; nullptr if it sends nothing, or that has not come.
  const OpPlace* ReceiverOf(const query::Collective& send) const;

  // The collective that this row of gpu_work is the kernel of: when its last rank arrived. nullptr
  // if it is none, or none is known.
  const Arrival* ArrivalOfWork(const query::RankRows& rows, const RankIndex& rank,
                               uint32_t row) const;
  // Row of the op run that this work was launched for; kNoRow if that is not known.
  static uint32_t OpRunOf(const query::RankRows& rows, const RankIndex& rank,
                          const query::GpuWork& work);

  // The stall of this rank that contains `time_ns`; nullptr if none.
  static const analysis::Stall* StallAt(const RankIndex& rank, int64_t time_ns);

 private:
  struct Consumed {
    size_t op_runs = 0;
    size_t collectives = 0;
    std::vector<uint32_t> early_collectives;  // their op run row has not come yet
    size_t gpu_work = 0;                      // looked at for NCCL's kernels
    std::vector<uint32_t> early_work;         // NCCL's row for these has not come yet
    int64_t exposed_until_ns = INT64_MIN;
    size_t steps = 0;
    std::vector<int64_t> longest_step_ns;  // of every 64 steps, the last ones may be fewer
  };
  // Stalls of a step, of all ranks; good for this generation only if later rows may change them.
  struct StepStalls {
    bool settled = false;
    uint64_t generation = 0;
    std::vector<analysis::Stall> stalls;
  };

  void Reset(const query::Snapshot& snapshot);
  // false: nothing is new.
  bool Begin(const query::Snapshot& snapshot);
  // What is of this rank alone: threads may do so for several. Returns how many rows were taken,
  // and not *complete if there are more.
  size_t TakeRank(const query::Snapshot& snapshot, size_t at, size_t max_rows, bool* complete);
  static void TakeRows(const query::RowList<query::OpRun>& op_runs, RankIndex* rank);
  static void ShrinkToFit(const query::Snapshot& snapshot, RankIndex* rank);
  void TakeOpRun(const query::OpRun& run, uint32_t row, RankIndex* rank) const;
  void TakeCollective(const query::RankRows& rows, uint32_t row, uint32_t op_row, RankIndex* rank);
  void TakeCollectives(const query::RankRows& rows, RankIndex* rank, Consumed* consumed);
  void TakeNccl(const query::Snapshot& snapshot, const query::RankRows& rows, RankIndex* rank,
                Consumed* consumed);
  bool TakeNcclKernel(const query::RankRows& rows, uint32_t row, RankIndex* rank);
  void Arrive(uint64_t key, int64_t arrived_ns, int32_t rank);
  static void TakeSteps(const query::RankRows& rows, Consumed* consumed);
  void UpdateSettled(const query::Snapshot& snapshot);
  void UpdateExposed(const query::Snapshot& snapshot, size_t at);  // once its rank is taken
  // Steps of any rank in `range` that take at least `least_ns` on some rank, ascending; of one that
  // goes on is not known yet.
  std::set<int32_t> LongStepsIn(const query::Snapshot& snapshot, Range range,
                                int64_t least_ns) const;
  std::vector<int32_t> StepsToLookAt(const query::Snapshot& snapshot, Range range,
                                     int64_t least_ns) const;
  void LookForStalls(const query::Snapshot& snapshot, int32_t first_step, int32_t last_step);
  void ShowStalls(int32_t first_step, int32_t last_step);
  void SettleExposed(int64_t until_ns, size_t at);
  static void UpdateExposedTail(RankIndex* rank, int64_t from_ns);
  void LearnPlan(const query::Snapshot& snapshot);

  static uint64_t ArrivalKey(int32_t communicator, int64_t sequence) {
    return static_cast<uint64_t>(communicator) << 48 ^ static_cast<uint64_t>(sequence);
  }

  std::string run_folder_;
  uint64_t generation_ = 0;
  uint64_t version_ = 0;
  uint64_t rows_version_ = 0;
  size_t known_plan_ops_ = 0;
  int32_t settled_step_ = -1;  // newest step whose stalls and exposed parts are final
  std::map<int32_t, StepStalls> stalls_of_step_;
  std::pair<int32_t, int32_t> shown_steps_ = {0, -1};  // first and last in RankIndex::stalls
  std::vector<RankIndex> ranks_;
  std::vector<Consumed> consumed_;
  std::unordered_map<query::TrackId, LaneKind> lane_of_track_;
  std::unordered_map<query::PlanOpId, std::pair<query::OpClass, uint8_t>> look_of_plan_op_;
  std::unordered_map<uint64_t, Arrival> arrivals_;
  std::unordered_map<uint64_t, OpPlace> receivers_;
};

// Row of the op run `id` of a rank; kNoRow if there is none.
uint32_t FindRow(const query::RankRows& rows, query::OpRunId id);

}  // namespace shardscope::timeline
