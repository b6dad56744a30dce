#include "trace/analysis/derived.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "trace/analysis/names.h"
#include "trace/analysis/row_index.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {
namespace {

constexpr const char* kTotal = "total";
constexpr query::ScheduleId kWholeRun = query::ScheduleId::None();  // of MemoryPeakRow::schedule

std::string PlanName(const query::Snapshot& snapshot, query::PlanOpId plan_op) {
  const query::PlanOp* op = snapshot.FindPlanOp(plan_op);
  return op == nullptr ? "" : op->name;
}

void AppendParts(const query::Snapshot& part, query::DerivedRows* rows) {
  for (const StepBreakdown& row : Breakdowns(part)) {
    const TimeSplit& time = row.time;
    rows->step_parts.push_back({schema::StepPartId(), row.rank, row.step, time.compute_ns,
                                time.communication_ns, time.copy_ns, time.overlap_ns,
                                time.exposed_copy_ns, row.slot_wait_ns});
  }
}

// By op run.
using PlanOps = std::map<query::OpRunId, query::PlanOpId>;
PlanOps PlanOpsOf(const query::Snapshot& part) {
  PlanOps plan_ops;
  for (const query::RankRows& rows : part.ranks) {
    for (const query::OpRun& run : rows.op_runs) plan_ops[run.id] = run.plan_op;
  }
  return plan_ops;
}

void AppendStalls(const std::vector<Stall>& stalls, const PlanOps& plan_ops,
                  query::DerivedRows* rows) {
  const auto plan_op = [&plan_ops](query::OpRunId op_run) {
    const auto found = plan_ops.find(op_run);
    return found == plan_ops.end() ? query::PlanOpId::None() : found->second;
  };
  for (const Stall& stall : stalls) {
    rows->stalls.Add({schema::StallId(), stall.rank, stall.step, stall.op_run,
                      plan_op(stall.op_run), stall.start_ns, stall.end_ns, stall.waiting_op_run,
                      stall.blocking_op_run, plan_op(stall.blocking_op_run),
                      std::string(Name(stall.cause)), stall.cause_object, stall.sentence});
  }
}

void AppendSlowest(const query::Snapshot& part, std::vector<CollectiveRun> collectives,
                   query::DerivedRows* rows) {
  std::map<int32_t, std::vector<CollectiveRun>> by_step;
  for (CollectiveRun& run : collectives) by_step[run.step].push_back(std::move(run));
  for (auto& [step, runs] : by_step) {
    for (const CollectiveRun& run : Slowest(std::move(runs))) {
      rows->slow_collectives.push_back(
          {schema::SlowCollectiveId(), run.op_run, run.plan_op, run.rank, run.step,
           part.communicators[static_cast<size_t>(run.communicator)], run.sequence, run.started_ns,
           run.last_arrival_ns, run.ended_ns, run.last_rank, run.payload_bytes, run.wire_bytes,
           run.complete ? 1 : 0});
    }
  }
}

void DeriveSteps(const query::Snapshot& part, query::DerivedRows* rows) {
  const std::vector<std::pair<int, int>> ranges = StepRanges(part, INT32_MIN, INT32_MAX);
  if (ranges.empty()) return;
  AppendParts(part, rows);
  const PlanOps plan_ops = PlanOpsOf(part);
  FrontMaker front(part);
  for (const auto& [first, last] : ranges) {
    StepRows step_rows(part, first, last);
    AppendStalls(Stalls(step_rows), plan_ops, rows);
    front.Add(step_rows);
    for (PathShare& row : PathShares(step_rows)) {
      rows->path_parts.push_back({schema::PathPartId(), row.step, row.rank,
                                  std::string(Name(row.kind)), std::move(row.name), row.path_ns});
    }
    AppendSlowest(part, std::move(step_rows.collectives), rows);
  }
  for (FrontPart& row : front.TakeParts()) {
    rows->front_parts.push_back({schema::FrontPartId(), row.step, row.rank, std::move(row.stage),
                                 row.front_ns, row.delay_ns});
  }
}

void DeriveMemory(const query::Snapshot& memory, query::DerivedRows* rows) {
  for (const MemoryPeak& peak : MemoryPeaks(memory)) {
    const auto add = [&](std::string category, int64_t bytes, int64_t time_ns, int64_t at_peak) {
      rows->memory_peaks.push_back(
          {{}, peak.rank, kWholeRun, std::move(category), bytes, time_ns, at_peak});
    };
    for (size_t i = 0; i < peak.peak_of.size(); ++i) {
      if (peak.peak_of[i] == 0 && peak.at_peak[i] == 0) continue;
      add(std::string(query::Name(static_cast<query::MemoryCategory>(i))), peak.peak_of[i],
          peak.peak_of_time_ns[i], peak.at_peak[i]);
    }
    add(kTotal, peak.peak_bytes, peak.peak_time_ns, peak.peak_bytes);
    for (const auto& [schedule, bytes] : peak.of_schedule) {
      rows->memory_peaks.push_back(
          {{}, peak.rank, schedule, kTotal, bytes, peak.peak_time_ns, bytes});
    }
  }
}

StallCause ParseCause(std::string_view word) {
  return words::ParseStallCause(word).value_or(StallCause::kOther);
}

// Those of the steps [first_step, last_step]: rows are in the order of steps.
template <typename Row>
std::span<const Row> OfSteps(const std::vector<Row>& rows, int64_t first_step, int64_t last_step) {
  const auto first = std::partition_point(
      rows.begin(), rows.end(), [first_step](const Row& row) { return row.step < first_step; });
  const auto last = std::partition_point(
      first, rows.end(), [last_step](const Row& row) { return row.step <= last_step; });
  return {first, last};
}

// The steps of one rank, asked for in ascending order.
class StepCursor {
 public:
  explicit StepCursor(const query::RankRows& rows) {
    steps_.reserve(rows.steps.size());
    for (const query::Step& step : rows.steps) steps_.push_back(&step);
    const auto before = [](const query::Step* a, const query::Step* b) {
      return a->step < b->step;
    };
    if (!std::is_sorted(steps_.begin(), steps_.end(), before)) {
      std::stable_sort(steps_.begin(), steps_.end(), before);
    }
  }

  // Of several rows of this step the newest; nullptr: there is none.
  const query::Step* Find(int64_t step) {
    while (next_ < steps_.size() && steps_[next_]->step <= step) ++next_;
    return next_ > 0 && steps_[next_ - 1]->step == step ? steps_[next_ - 1] : nullptr;
  }

 private:
  std::vector<const query::Step*> steps_;
  size_t next_ = 0;  // the first one behind what was asked for
};

}  // namespace

query::Deriver MakeDeriver() { return {DeriveSteps, DeriveMemory}; }

std::vector<StepBreakdown> DerivedBreakdowns(const query::Snapshot& snapshot) {
  std::map<int64_t, StepCursor> steps;  // by rank
  for (const query::RankRows& rows : snapshot.ranks) steps.emplace(rows.rank, StepCursor(rows));
  std::vector<StepBreakdown> breakdowns;
  const int32_t timed_from = TimedFrom(snapshot);
  breakdowns.reserve(snapshot.derived->step_parts.size());
  for (const schema::StepPartRow& part : snapshot.derived->step_parts) {
    const auto rank = steps.find(part.rank);
    const query::Step* found = rank == steps.end() ? nullptr : rank->second.Find(part.step);
    if (found == nullptr) continue;
    const query::Step& step = *found;
    StepBreakdown row;
    row.rank = step.rank;
    row.step = step.step;
    row.start_ns = step.start_ns;
    row.end_ns = std::max(step.end_ns, step.start_ns);
    row.step_ns = row.end_ns - row.start_ns;
    TimeSplit& time = row.time;
    time.compute_ns = part.compute_ns;
    time.communication_ns = part.communication_ns;
    time.copy_ns = part.copy_ns;
    time.overlap_ns = part.overlap_ns;
    time.exposed_ns = part.communication_ns - part.overlap_ns;
    time.exposed_copy_ns = part.exposed_copy_ns;
    time.idle_ns = row.step_ns - time.compute_ns - time.exposed_ns - time.exposed_copy_ns;
    row.slot_wait_ns = part.slot_wait_ns;
    row.tokens = step.tokens;
    row.loss = step.loss;
    row.grad_norm = step.grad_norm;
    row.timed_from = timed_from;
    breakdowns.push_back(row);
  }
  return breakdowns;
}

std::vector<Stall> DerivedStalls(const query::Snapshot& snapshot, int first_step, int last_step) {
  std::vector<Stall> stalls;
  const query::KeptStalls& kept = snapshot.derived->stalls;
  for (const query::KeptStall& row : OfSteps(kept.all(), first_step, last_step)) {
    const query::StallWords& words = kept.WordsOf(row);
    const query::PlanOp* op = snapshot.FindPlanOp(row.plan_op);
    const query::PlanOp* blocking = snapshot.FindPlanOp(row.blocking_plan_op);
    Stall stall;
    stall.rank = row.rank;
    stall.step = row.step;
    stall.op_run = row.op_run;
    if (op != nullptr) stall.op_name = op->name;
    stall.start_ns = row.start_ns;
    stall.end_ns = row.end_ns;
    stall.stall_ns = row.end_ns - row.start_ns;
    stall.waiting_op_run = row.waiting_op_run;
    stall.blocking_op_run = row.blocking_op_run;
    if (blocking != nullptr) {
      stall.blocking_name = blocking->name;
      stall.collective_kind = blocking->kind;
    }
    if (op != nullptr) stall.title = blocking ? StallTitle(*blocking, *op) : ShortName(*op);
    stall.cause = ParseCause(words.cause);
    stall.cause_object = words.cause_object;
    stall.sentence = words.sentence;
    stalls.push_back(std::move(stall));
  }
  return stalls;
}

std::vector<CollectiveRun> DerivedCollectives(const query::Snapshot& snapshot, int first_step,
                                              int last_step) {
  std::vector<CollectiveRun> runs;
  for (const schema::SlowCollectiveRow& row :
       OfSteps(snapshot.derived->slow_collectives, first_step, last_step)) {
    CollectiveRun run;
    run.op_run = row.op_run;
    run.plan_op = row.plan_op;
    run.rank = static_cast<int32_t>(row.rank);
    run.step = static_cast<int32_t>(row.step);
    run.name = PlanName(snapshot, row.plan_op);
    const auto communicator =
        std::find(snapshot.communicators.begin(), snapshot.communicators.end(), row.communicator);
    if (communicator != snapshot.communicators.end()) {
      run.communicator = static_cast<int32_t>(communicator - snapshot.communicators.begin());
    }
    run.sequence = row.sequence;
    run.started_ns = row.started_ns;
    run.last_arrival_ns = row.last_arrival_ns;
    run.last_rank = static_cast<int32_t>(row.last_rank);
    run.ended_ns = row.ended_ns;
    run.payload_bytes = row.payload_bytes;
    run.wire_bytes = row.wire_bytes;
    run.complete = row.complete != 0;
    SplitAtArrival(&run);
    runs.push_back(std::move(run));
  }
  return runs;
}

std::vector<MemoryPeak> DerivedMemoryPeaks(const query::Snapshot& snapshot) {
  std::vector<MemoryPeak> peaks;
  for (const query::RankRows& rows : snapshot.ranks) {
    MemoryPeak peak;
    peak.rank = rows.rank;
    const auto before = [&rows](const schema::MemoryPeakRow& row) { return row.rank < rows.rank; };
    const std::vector<schema::MemoryPeakRow>& all = snapshot.derived->memory_peaks;
    auto at = std::partition_point(all.begin(), all.end(), before);
    for (; at != all.end() && at->rank == rows.rank; ++at) {
      const schema::MemoryPeakRow& row = *at;
      if (row.schedule != kWholeRun) {
        peak.of_schedule[row.schedule] = row.peak_bytes;
        continue;
      }
      if (row.category == kTotal) {
        peak.peak_bytes = row.peak_bytes;
        peak.peak_time_ns = row.peak_ns;
        continue;
      }
      const std::optional<query::MemoryCategory> category =
          query::ParseMemoryCategory(row.category);
      if (!category) continue;
      peak.peak_of[static_cast<size_t>(*category)] = row.peak_bytes;
      peak.peak_of_time_ns[static_cast<size_t>(*category)] = row.peak_ns;
      peak.at_peak[static_cast<size_t>(*category)] = row.at_total_peak_bytes;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

std::vector<FrontPart> DerivedFrontParts(const query::Snapshot& snapshot, int first_step,
                                         int last_step) {
  std::vector<FrontPart> parts;
  for (const schema::FrontPartRow& row :
       OfSteps(snapshot.derived->front_parts, first_step, last_step)) {
    parts.push_back({static_cast<int32_t>(row.step), row.stage, static_cast<int32_t>(row.rank),
                     row.front_ns, row.delay_ns});
  }
  return parts;
}

std::vector<PathShare> DerivedPathShares(const query::Snapshot& snapshot, int first_step,
                                         int last_step) {
  std::vector<PathShare> shares;
  for (const schema::PathPartRow& row :
       OfSteps(snapshot.derived->path_parts, first_step, last_step)) {
    shares.push_back({static_cast<int32_t>(row.step), static_cast<int32_t>(row.rank),
                      ParsePathKind(row.kind).value_or(PathKind::kWait), row.name, row.path_ns});
  }
  return shares;
}

}  // namespace shardscope::analysis
