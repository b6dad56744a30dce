#include "ui/timeline/gpu/stream_waits.h"

#include <algorithm>
#include <optional>

#include "trace/analysis/names.h"
#include "trace/query/find_track.h"

namespace shardscope::timeline {
namespace {

using Verdict = StreamWait::Verdict;

// A stream of CUDA takes about a thousand launches before the host has to wait: work stands no
// farther from the time of a wait.
constexpr size_t kFarthest = 4096;

int32_t RankOfTrack(const query::Snapshot& snapshot, query::TrackId track) {
  const query::GpuStream* stream = query::FindStream(snapshot, track);
  return stream == nullptr ? -1 : stream->rank;
}

const TrackLane* LaneOfTrack(const RankIndex& rank, query::TrackId track) {
  for (const TrackLane& lane : rank.tracks.streams()) {
    if (lane.track == track) return &lane;
  }
  return nullptr;
}

// The row of gpu_work with this correlation on a stream, near `near_ns`.
uint32_t FindWork(const query::RankRows& rows, const RankIndex& rank, query::TrackId track,
                  int64_t correlation, int64_t near_ns) {
  const TrackLane* lane = LaneOfTrack(rank, track);
  if (lane == nullptr || correlation < 0) return kNoRow;
  const SpanColumn& column = lane->levels.front();
  const size_t middle = column.FirstStartingAt(near_ns);
  const size_t last = std::min(column.size(), middle + kFarthest);
  for (size_t at = middle; at < last; ++at) {
    if (rows.gpu_work[column[at].row].correlation == correlation) return column[at].row;
  }
  const size_t first = middle - std::min(middle, kFarthest);
  for (size_t at = middle; at-- > first;) {
    if (rows.gpu_work[column[at].row].correlation == correlation) return column[at].row;
  }
  return kNoRow;
}

WaitEnd EndOfWork(const query::Snapshot& snapshot, const query::RankRows& rows, uint32_t row,
                  bool of_from) {
  const query::GpuWork& work = rows.gpu_work[row];
  WaitEnd end;
  end.rank = rows.rank;
  end.track = work.track;
  end.span = work.id;
  end.time_ns = of_from ? work.end_ns : work.start_ns;
  end.name = ShortKernelName(snapshot.names[static_cast<size_t>(work.name)]);
  if (const query::PlanOp* op = snapshot.FindPlanOp(work.plan_op)) {
    end.name = analysis::ShortName(*op);
  }
  return end;
}

// The other end of a wait, of which only its edge is known for sure.
WaitEnd OtherEnd(const query::Snapshot& snapshot, const RunIndex& index,
                 const query::EventEdge& edge, bool of_from) {
  const query::TrackId track = of_from ? edge.from_track : edge.to_track;
  const int64_t near_ns = of_from ? edge.recorded_ns : edge.waited_ns;
  WaitEnd end;
  end.rank = RankOfTrack(snapshot, track);
  end.track = track;
  end.time_ns = near_ns;
  const query::RankRows* rows = snapshot.FindRank(end.rank);
  const RankIndex* rank = index.Find(end.rank);
  if (rows == nullptr || rank == nullptr) return end;
  const int64_t correlation = of_from ? edge.from_correlation : edge.to_correlation;
  const uint32_t row = FindWork(*rows, *rank, track, correlation, near_ns);
  if (row != kNoRow) return EndOfWork(snapshot, *rows, row, of_from);
  const TrackLane* lane = LaneOfTrack(*rank, track);
  if (lane != nullptr) end.name = lane->name;
  return end;
}

Verdict VerdictOf(const query::Snapshot& snapshot, const analysis::EdgeCheck* check, int32_t rank,
                  const query::EventEdge& edge) {
  const bool comparable = check != nullptr && check->compared() && edge.step == edge.from_step &&
                          snapshot.FindPlanOp(edge.from_plan_op) != nullptr &&
                          snapshot.FindPlanOp(edge.to_plan_op) != nullptr;
  if (!comparable) return Verdict::kUnknown;
  const analysis::EdgeDifference* difference =
      check->Find(rank, edge.step, edge.from_plan_op, edge.to_plan_op);
  return difference != nullptr && !difference->missing ? Verdict::kExtra : Verdict::kPlanned;
}

// Calls visit(edge, rank that waited) for the waits of a step, and of those beside it, which may
// touch it too. Ranks that share a GPU wait for each other.
template <typename Visit>
void ForEachNear(const query::Snapshot& snapshot, int32_t step, const Visit& visit) {
  for (const query::RankRows& rows : snapshot.ranks) {
    rows.event_edges.ForEachOfSteps(
        step - 1, step + 1, [&](const query::EventEdge& edge, size_t) { visit(edge, rows.rank); });
  }
}

// The run of a plan op in a step; nullopt if it has not run.
std::optional<query::OpRun> RunOf(const query::RankRows& rows, query::PlanOpId plan_op,
                                  int32_t step) {
  std::optional<query::OpRun> found;
  rows.op_runs.ForEachOfSteps(step, step, [&](const query::OpRun& run, size_t) {
    if (run.plan_op == plan_op) found = run;
  });
  return found;
}

std::optional<WaitEnd> EndOfOp(const query::Snapshot& snapshot, int32_t rank,
                               query::PlanOpId plan_op, int32_t step, bool of_from) {
  const query::PlanOp* op = snapshot.FindPlanOp(plan_op);
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (op == nullptr || rows == nullptr) return std::nullopt;
  const std::optional<query::OpRun> run = RunOf(*rows, plan_op, step);
  if (!run) return std::nullopt;
  WaitEnd end;
  end.rank = rank;
  end.track = run->track;
  end.is_op = true;
  end.op_run = run->id;
  end.time_ns = of_from ? run->ended_ns : run->started_ns;
  end.name = analysis::ShortName(*op);
  return end;
}

// Ends that were not recorded have no id: they are told apart by where and when they were.
bool EndsAt(const WaitEnd& a, const WaitEnd& b) {
  return a.op_run == b.op_run && a.span == b.span &&
         (a.was_recorded() || (a.track == b.track && a.time_ns == b.time_ns));
}

// Several kernels of one op may wait alike: one line says it.
void AddOnce(StreamWait wait, std::vector<StreamWait>* waits) {
  for (const StreamWait& known : *waits) {
    if (EndsAt(known.from, wait.from) && EndsAt(known.to, wait.to) &&
        known.verdict == wait.verdict) {
      return;
    }
  }
  waits->push_back(std::move(wait));
}

void AddMissing(const query::Snapshot& snapshot, const analysis::EdgeCheck& check, int32_t rank,
                const query::OpRun& run, std::vector<StreamWait>* waits) {
  for (const analysis::EdgeDifference& row : check.differences) {
    if (!row.missing || row.rank != rank || row.step != run.step) continue;
    if (row.from_plan_op != run.plan_op && row.to_plan_op != run.plan_op) continue;
    const auto from = EndOfOp(snapshot, rank, row.from_plan_op, row.step, true);
    const auto to = EndOfOp(snapshot, rank, row.to_plan_op, row.step, false);
    if (!from || !to) continue;
    waits->push_back({Verdict::kMissing, row.to_plan_op == run.plan_op, *from, *to, 0});
  }
}

}  // namespace

std::vector<StreamWait> WaitsOfWork(const query::Snapshot& snapshot, const RunIndex& index,
                                    const analysis::EdgeCheck* check, int32_t rank, uint32_t row) {
  std::vector<StreamWait> waits;
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows == nullptr || row >= rows->gpu_work.size()) return waits;
  const query::GpuWork& work = rows->gpu_work[row];
  ForEachNear(snapshot, work.step, [&](const query::EventEdge& edge, int32_t waiting_rank) {
    const bool incoming = edge.to_track == work.track && edge.to_correlation == work.correlation;
    const bool outgoing =
        edge.from_track == work.track && edge.from_correlation == work.correlation;
    if (!incoming && !outgoing) return;
    StreamWait wait;
    wait.verdict = VerdictOf(snapshot, check, waiting_rank, edge);
    wait.incoming = incoming;
    wait.from =
        incoming ? OtherEnd(snapshot, index, edge, true) : EndOfWork(snapshot, *rows, row, true);
    wait.to =
        incoming ? EndOfWork(snapshot, *rows, row, false) : OtherEnd(snapshot, index, edge, false);
    wait.waited_ns = edge.waited_ns;
    AddOnce(std::move(wait), &waits);
  });
  return waits;
}

std::vector<StreamWait> WaitsOfOp(const query::Snapshot& snapshot, const analysis::EdgeCheck* check,
                                  int32_t rank, const query::OpRun& run) {
  std::vector<StreamWait> waits;
  ForEachNear(snapshot, run.step, [&](const query::EventEdge& edge, int32_t waiting_rank) {
    const int32_t from_rank = RankOfTrack(snapshot, edge.from_track);
    const bool incoming =
        waiting_rank == rank && edge.to_plan_op == run.plan_op && edge.step == run.step;
    const bool outgoing =
        from_rank == rank && edge.from_plan_op == run.plan_op && edge.from_step == run.step;
    if (!incoming && !outgoing) return;
    const auto from = EndOfOp(snapshot, from_rank, edge.from_plan_op, edge.from_step, true);
    const auto to = EndOfOp(snapshot, waiting_rank, edge.to_plan_op, edge.step, false);
    if (!from || !to || from->op_run == to->op_run) return;
    AddOnce({VerdictOf(snapshot, check, waiting_rank, edge), incoming, *from, *to, edge.waited_ns},
            &waits);
  });
  if (check != nullptr) AddMissing(snapshot, *check, rank, run, &waits);
  return waits;
}

}  // namespace shardscope::timeline
