#include "trace/analysis/breakdown.h"

#include <algorithm>

#include "trace/analysis/derived/derived.h"
#include "trace/base/check.h"

namespace shardscope::analysis {
namespace {

// Of whole runs: the intervals of all their ops at once would be hundreds of megabytes.
constexpr size_t kStepsAtATime = 64;

// Which of the three sums of DESIGN section 7 an op counts to.
enum class Share : uint8_t { kNone, kCompute, kCommunication, kCopy };

Share ShareOf(const query::PlanOp& op) {
  if (op.op_class == query::OpClass::kBookkeeping || op.op_class == query::OpClass::kHost) {
    return Share::kNone;
  }
  switch (op.category) {
    case query::Category::kCompute:
    case query::Category::kOptimizer:
      return Share::kCompute;
    case query::Category::kCommunication:
      return Share::kCommunication;
    case query::Category::kCopy:
      return Share::kCopy;
    case query::Category::kHost:
      return Share::kNone;
  }
  return Share::kNone;
}

std::vector<Interval> Clip(const std::vector<Interval>& intervals, int64_t start_ns,
                           int64_t end_ns) {
  std::vector<Interval> clipped;
  clipped.reserve(intervals.size());
  for (const Interval& interval : intervals) {
    clipped.push_back({std::max(interval.start_ns, start_ns), std::min(interval.end_ns, end_ns)});
  }
  return clipped;
}

std::vector<Interval> UnionOf(std::vector<Interval> a, const std::vector<Interval>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return Union(std::move(a));
}

bool IsOnComputeTrack(const query::Snapshot& snapshot, int64_t track) {
  for (const query::Track& candidate : snapshot.tracks) {
    if (candidate.id == track) return candidate.role == query::TrackRole::kCompute;
  }
  return false;
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
  const Share share = ShareOf(op);
  const bool waited = run.slot_wait_ns > 0 && IsOnComputeTrack(snapshot, run.track);
  if (share == Share::kNone && !waited) return;
  const std::pair<int32_t, int32_t> key(run.step, run.rank);
  StepRows& step = step_rows_[key];
  const Interval interval{run.started_ns, run.ended_ns};
  if (share == Share::kCompute) step.compute.push_back(interval);
  if (share == Share::kCommunication) step.communication.push_back(interval);
  if (share == Share::kCopy) step.copy.push_back(interval);
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
StepBreakdown BreakdownCache::Compute(StepRows* rows) {
  const int64_t start_ns = rows->step.start_ns;
  const int64_t end_ns = std::max(rows->step.end_ns, start_ns);
  rows->compute = Union(Clip(rows->compute, start_ns, end_ns));
  rows->communication = Union(Clip(rows->communication, start_ns, end_ns));
  rows->copy = Union(Clip(rows->copy, start_ns, end_ns));
  rows->slot_wait = Union(Clip(rows->slot_wait, start_ns, end_ns));

  const std::vector<Interval> not_copy = UnionOf(rows->compute, rows->communication);
  const std::vector<Interval> busy = UnionOf(not_copy, rows->copy);
  StepBreakdown row;
  row.rank = rows->step.rank;
  row.step = rows->step.step;
  row.start_ns = start_ns;
  row.end_ns = end_ns;
  row.step_ns = end_ns - start_ns;
  row.compute_ns = TotalNs(rows->compute);
  row.communication_ns = TotalNs(rows->communication);
  row.copy_ns = TotalNs(rows->copy);
  row.overlap_ns = TotalNs(Intersect(rows->compute, rows->communication));
  row.exposed_ns = row.communication_ns - row.overlap_ns;
  row.exposed_copy_ns = TotalNs(Subtract(rows->copy, not_copy));
  row.idle_ns = row.step_ns - TotalNs(busy);
  row.slot_wait_ns = TotalNs(Subtract(rows->slot_wait, busy));
  row.tokens = rows->step.tokens;
  row.loss = rows->step.loss;
  row.grad_norm = rows->step.grad_norm;
  // Overlap by intersection, idle by union: the identity ties the two together.
  SHARDSCOPE_CHECK(row.compute_ns + row.exposed_ns + row.exposed_copy_ns + row.idle_ns ==
                   row.step_ns);
  SHARDSCOPE_CHECK(row.slot_wait_ns <= row.idle_ns);
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
  for (const query::RankRows& rows : snapshot.ranks) {
    TakeOpRuns(snapshot, rows);
    size_t& next = consumed_[rows.rank].steps;
    for (; next < rows.steps.size(); ++next) TakeStep(rows.steps[next]);
  }
  ComputeChanged();
  return result_;
}

std::vector<StepBreakdown> Breakdowns(const query::Snapshot& snapshot) {
  if (snapshot.derived) return DerivedBreakdowns(snapshot);
  std::vector<int32_t> steps;  // finished by any rank
  for (const query::RankRows& rows : snapshot.ranks) {
    for (const query::Step& row : rows.steps) steps.push_back(row.step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  std::vector<StepBreakdown> result;
  for (size_t first = 0; first < steps.size(); first += kStepsAtATime) {
    const int last_step = steps[std::min(first + kStepsAtATime, steps.size()) - 1];
    BreakdownCache part;
    for (const query::RankRows& rows : snapshot.ranks) {
      rows.op_runs.ForEachOfSteps(steps[first], last_step, [&](const query::OpRun& run, size_t) {
        const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
        if (op != nullptr) part.TakeOpRun(snapshot, run, *op);
      });
      rows.steps.ForEachOfSteps(steps[first], last_step,
                                [&](const query::Step& row, size_t) { part.TakeStep(row); });
    }
    part.ComputeChanged();
    result.insert(result.end(), part.result_.begin(), part.result_.end());
  }
  return result;
}

}  // namespace shardscope::analysis
