#include "trace/analysis/steps/breakdown_cache.h"

#include <algorithm>

#include "trace/analysis/op_share.h"
#include "trace/base/check.h"
#include "trace/query/find_track.h"

namespace shardscope::analysis {
namespace {

std::vector<Interval> Clip(const std::vector<Interval>& intervals, int64_t start_ns,
                           int64_t end_ns) {
  std::vector<Interval> clipped;
  clipped.reserve(intervals.size());
  for (const Interval& interval : intervals) {
    clipped.push_back({std::max(interval.start_ns, start_ns), std::min(interval.end_ns, end_ns)});
  }
  return clipped;
}

bool IsOnComputeTrack(const query::Snapshot& snapshot, query::TrackId track) {
  const query::Track* found = query::FindTrack(snapshot, track);
  return found != nullptr && found->role == query::TrackRole::kCompute;
}

}  // namespace

void BreakdownCache::TakeOpRuns(const query::Snapshot& snapshot, const query::RankRows& rows) {
  size_t& next = consumed_[rows.rank].op_runs;
  for (; next < rows.op_runs.size(); ++next) {
    const query::OpRun& run = rows.op_runs[next];
    const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
    if (op == nullptr) {
      // Its plan op is still on the way, or, once the run is over, lost.
      if (query::MayGrow(snapshot.state)) return;
      continue;
    }
    TakeOpRun(snapshot, run, *op);
  }
}

void BreakdownCache::TakeOpRun(const query::Snapshot& snapshot, const query::OpRun& run,
                               const query::PlanOp& op) {
  if (run.step < 0) return;  // of an evaluation, which is in no step
  const OpShare share = ShareOf(op);
  const bool waited = run.slot_wait_ns > 0 && IsOnComputeTrack(snapshot, run.track);
  if (share == OpShare::kNone && !waited) return;
  const std::pair<int32_t, int32_t> key(run.step, run.rank);
  StepRows& step = step_rows_[key];
  const Interval interval{run.started_ns, run.ended_ns};
  if (share == OpShare::kCompute) step.times.compute.push_back(interval);
  if (share == OpShare::kCommunication) step.times.communication.push_back(interval);
  if (share == OpShare::kCopy) step.times.copy.push_back(interval);
  if (waited) step.slot_wait.push_back({run.started_ns - run.slot_wait_ns, run.started_ns});
  if (!step.changed) changed_.push_back(key);
  step.changed = true;
}

void BreakdownCache::TakeStep(const query::Step& row) {
  const std::pair<int32_t, int32_t> key(row.step, row.rank);
  StepRows& step = step_rows_[key];
  step.finished = true;
  step.step = row;
  if (!step.changed) changed_.push_back(key);
  step.changed = true;
}

// The unions replace the rows they are made of, so that a late row costs little.
StepBreakdown BreakdownCache::Compute(StepRows* rows) const {
  const int64_t start_ns = rows->step.start_ns;
  const int64_t end_ns = std::max(rows->step.end_ns, start_ns);
  BusyTimes& times = rows->times;
  times.compute = Union(Clip(times.compute, start_ns, end_ns));
  times.communication = Union(Clip(times.communication, start_ns, end_ns));
  times.copy = Union(Clip(times.copy, start_ns, end_ns));
  rows->slot_wait = Union(Clip(rows->slot_wait, start_ns, end_ns));

  const std::vector<Interval> busy = AllBusy(times);
  StepBreakdown row;
  row.rank = rows->step.rank;
  row.step = rows->step.step;
  row.start_ns = start_ns;
  row.end_ns = end_ns;
  row.step_ns = end_ns - start_ns;
  row.time = SplitTime(times, busy, row.step_ns);
  row.slot_wait_ns = TotalNs(Subtract(rows->slot_wait, busy));
  row.tokens = rows->step.tokens;
  row.loss = rows->step.loss;
  row.grad_norm = rows->step.grad_norm;
  row.timed_from = timed_from_;
  SHARDSCOPE_CHECK(row.slot_wait_ns <= row.time.idle_ns);
  return row;
}

void BreakdownCache::Put(const StepBreakdown& row) {
  const auto before = [](const StepBreakdown& a, const StepBreakdown& b) {
    return std::pair(a.step, a.rank) < std::pair(b.step, b.rank);
  };
  const auto at = std::lower_bound(result_.begin(), result_.end(), row, before);
  if (at != result_.end() && at->step == row.step && at->rank == row.rank) {
    *at = row;
  } else {
    result_.insert(at, row);
  }
}

void BreakdownCache::ComputeChanged() {
  std::sort(changed_.begin(), changed_.end());
  for (const std::pair<int32_t, int32_t>& key : changed_) {
    StepRows& rows = step_rows_[key];
    rows.changed = false;
    if (rows.finished) Put(Compute(&rows));
  }
  changed_.clear();
}

const std::vector<StepBreakdown>& BreakdownCache::Update(const query::Snapshot& snapshot) {
  timed_from_ = TimedFrom(snapshot);
  for (const query::RankRows& rows : snapshot.ranks) {
    TakeOpRuns(snapshot, rows);
    size_t& next = consumed_[rows.rank].steps;
    for (; next < rows.steps.size(); ++next) TakeStep(rows.steps[next]);
  }
  ComputeChanged();
  return result_;
}

}  // namespace shardscope::analysis
