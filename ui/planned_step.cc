#include "ui/planned_step.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "engine/plan/text.h"
#include "engine/simulate/simulate.h"
#include "trace/analysis/collectives/collectives.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/base/parse_number.h"
#include "trace/query/find_track.h"
#include "trace/query/step_times.h"
#include "ui/schedule_sheet.h"

namespace shardscope::ui {
namespace {

constexpr size_t kMostSteps = 20;  // whose medians are taken

using OpRuns = std::vector<std::optional<query::OpRun>>;  // by op of the program; none: it was lost

// What each op of a rank took in the steps that are looked at.
struct OpSamples {
  std::vector<double> issue;
  std::vector<double> latency;
  std::vector<double> duration;
};

int64_t MedianOf(const std::vector<double>& samples) {
  return std::llround(analysis::Percentile(samples, 0.5));
}

// The newest finished steps that ran one of `schedules`, ascending; those before `timed_from` only
// where there are no others.
std::vector<query::Step> StepsOf(const query::RankRows& rows,
                                 const std::set<query::ScheduleId>& schedules, int32_t timed_from) {
  std::vector<query::Step> steps;
  for (size_t at = rows.steps.size(); at-- > 0 && steps.size() < kMostSteps;) {
    const query::Step& step = rows.steps[at];
    if (!schedules.contains(step.schedule)) continue;
    if (step.step < timed_from && !steps.empty()) continue;
    steps.push_back(step);
  }
  std::reverse(steps.begin(), steps.end());
  return steps;
}

// Takes what the host and the streams of a rank needed for each op of one step.
class StepSampler {
 public:
  StepSampler(const plan::Program& program, OpRuns runs, std::vector<OpSamples>* samples)
      : program_(program), runs_(std::move(runs)), samples_(*samples) {}

  // `last_arrival`: of collectives, by op run.
  void Take(int64_t start_ns, const std::map<query::OpRunId, int64_t>& last_arrival) {
    int64_t host_ns = start_ns;  // when the host turns to the op
    for (size_t op = 0; op < runs_.size(); ++op) {
      const std::optional<query::OpRun>& run = runs_[op];
      if (!run) continue;
      const int64_t turned_ns = std::max(host_ns, WaitedUntil(op));
      const plan::Op& planned = program_.ops[op];
      OpSamples& samples = samples_[op];
      samples.issue.push_back(NotNegative(run->issued_ns - turned_ns));
      const int64_t begun_ns = run->started_ns - run->slot_wait_ns;
      if (run->ready_ns <= run->issued_ns) {
        samples.latency.push_back(NotNegative(begun_ns - run->issued_ns));
      }
      const auto arrival = last_arrival.find(run->id);
      const int64_t from_ns = arrival == last_arrival.end() ? run->started_ns : arrival->second;
      samples.duration.push_back(NotNegative(run->ended_ns - from_ns));
      host_ns = planned.stream == 0 ? run->ended_ns : run->issued_ns;
    }
  }

 private:
  static double NotNegative(int64_t length_ns) {
    return static_cast<double>(std::max<int64_t>(0, length_ns));
  }
  // The end of what the host waited for before the op.
  int64_t WaitedUntil(size_t op) const {
    int64_t until_ns = 0;
    for (const plan::Dependency& dependency : program_.ops[op].dependencies) {
      if (dependency.kind != plan::DependencyKind::kHost) continue;
      const std::optional<query::OpRun>& target = runs_[static_cast<size_t>(dependency.target)];
      if (target) until_ns = std::max(until_ns, target->ended_ns);
    }
    return until_ns;
  }

  const plan::Program& program_;
  const OpRuns runs_;
  std::vector<OpSamples>& samples_;
};

// By rank, op run.
using Arrivals = std::map<int32_t, std::map<query::OpRunId, int64_t>>;

// Collectives, and the control op, at which all ranks meet too.
Arrivals ArrivalsOf(const query::Snapshot& snapshot, int32_t first_step, int32_t last_step) {
  Arrivals arrivals;
  for (const analysis::CollectiveRun& run :
       analysis::Collectives(snapshot, first_step, last_step)) {
    arrivals[run.rank][run.op_run] = run.last_arrival_ns;
  }
  std::map<int32_t, int64_t> last_control;  // by step
  const auto for_each_control = [&](auto&& visit) {
    for (const query::RankRows& rows : snapshot.ranks) {
      rows.op_runs.ForEachOfSteps(first_step, last_step, [&](const query::OpRun& run, size_t) {
        const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
        if (op != nullptr && op->kind == Name(words::OpKind::kControl)) visit(run);
      });
    }
  };
  for_each_control([&](const query::OpRun& run) {
    int64_t& last_ns = last_control[run.step];
    last_ns = std::max(last_ns, run.started_ns);
  });
  for_each_control([&](const query::OpRun& run) {
    arrivals[run.rank][run.id] = std::min(last_control[run.step], run.ended_ns);
  });
  return arrivals;
}

// Where this run says so; 0: no limit.
int ComputeSlotsOf(const query::Snapshot& snapshot) {
  const auto found = snapshot.config.find("engine.compute_slots");
  if (found == snapshot.config.end()) return 0;
  return ParseInteger<int>(found->second, 0).value_or(0);
}

std::vector<simulate::OpCost> CostsOf(const query::Snapshot& snapshot, const query::RankRows& rows,
                                      const plan::Program& program,
                                      const std::vector<query::Step>& steps,
                                      const Arrivals& arrivals) {
  std::vector<OpSamples> samples(program.ops.size());
  const auto of_rank = arrivals.find(rows.rank);
  for (const query::Step& step : steps) {
    OpRuns runs(program.ops.size());
    rows.op_runs.ForEachOfSteps(step.step, step.step, [&](const query::OpRun& run, size_t) {
      const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
      const bool is_of_it = op != nullptr && op->schedule == step.schedule && op->op >= 0 &&
                            static_cast<size_t>(op->op) < runs.size();
      if (is_of_it) runs[static_cast<size_t>(op->op)] = run;
    });
    StepSampler(program, std::move(runs), &samples)
        .Take(step.start_ns,
              of_rank == arrivals.end() ? std::map<query::OpRunId, int64_t>() : of_rank->second);
  }
  std::vector<simulate::OpCost> costs;
  for (const OpSamples& op : samples) {
    costs.push_back({.issue_ns = MedianOf(op.issue),
                     .latency_ns = MedianOf(op.latency),
                     .duration_ns = MedianOf(op.duration)});
  }
  return costs;
}

// The plan's op of each op of a program.
std::map<std::tuple<query::ScheduleId, int32_t, int32_t>, const query::PlanOp*> PlanOpsOf(
    const query::Snapshot& snapshot, const std::set<query::ScheduleId>& schedules) {
  std::map<std::tuple<query::ScheduleId, int32_t, int32_t>, const query::PlanOp*> ops;
  for (const auto& [id, op] : snapshot.plan_ops) {
    if (schedules.contains(op.schedule)) ops[{op.schedule, op.program, op.op}] = &op;
  }
  return ops;
}

// On which stream of a rank the ops of a step ran.
std::map<query::PlanOpId, query::TrackRole> RolesOf(const query::Snapshot& snapshot,
                                                    const query::RankRows& rows, int32_t step) {
  const auto of_track = query::RolesOfTracks(snapshot);
  std::map<query::PlanOpId, query::TrackRole> roles;
  rows.op_runs.ForEachOfSteps(step, step, [&](const query::OpRun& run, size_t) {
    const auto track = of_track.find(run.track);
    if (track != of_track.end()) roles[run.plan_op] = track->second;
  });
  return roles;
}

Result<simulate::StepTimes> Simulate(const query::Snapshot& snapshot,
                                     const plan::Schedule& schedule,
                                     const std::vector<std::vector<query::Step>>& steps) {
  int32_t first = INT32_MAX;
  int32_t last = -1;
  for (const std::vector<query::Step>& of_rank : steps) {
    first = std::min(first, of_rank.front().step);
    last = std::max(last, of_rank.back().step);
  }
  const Arrivals arrivals = ArrivalsOf(snapshot, first, last);
  simulate::StepInput input;
  input.compute_slots = ComputeSlotsOf(snapshot);
  for (size_t rank = 0; rank < snapshot.ranks.size(); ++rank) {
    input.start_ns.push_back(0);
    input.costs.push_back(CostsOf(snapshot, snapshot.ranks[rank],
                                  schedule.ProgramOf(static_cast<int>(rank)), steps[rank],
                                  arrivals));
  }
  return simulate::SimulateStep(schedule, input);
}

void AddTimes(const query::Snapshot& snapshot, const plan::Schedule& schedule,
              const std::vector<std::vector<query::Step>>& steps, const simulate::StepTimes& times,
              PlannedStep* planned) {
  const auto plan_ops = PlanOpsOf(snapshot, planned->schedules);
  for (size_t rank = 0; rank < times.size(); ++rank) {
    const query::RankRows& rows = snapshot.ranks[rank];
    std::vector<PlannedOp>& ops = planned->ranks[rows.rank];
    const query::Step& newest = steps[rank].back();
    const auto roles = RolesOf(snapshot, rows, newest.step);
    for (size_t op = 0; op < times[rank].size(); ++op) {
      const executor::OpTimes& time = times[rank][op];
      planned->length_ns = std::max(planned->length_ns, time.ended_ns);
      const auto found = plan_ops.find(
          {newest.schedule, schedule.program_of_rank[rank], static_cast<int32_t>(op)});
      if (found == plan_ops.end() || time.ended_ns <= time.started_ns) continue;
      const auto role = roles.find(found->second->id);
      if (role == roles.end()) continue;
      ops.push_back({found->second->id, role->second, time.started_ns, time.ended_ns});
    }
    std::ranges::stable_sort(ops, {}, &PlannedOp::started_ns);
  }
}

// Those of `runs`, in the order in which they happened, that follow one with a larger place.
template <typename Time>
void AddOutOfOrder(std::vector<std::pair<query::OpRun, int32_t>> runs, Time time,
                   std::set<query::OpRunId>* late) {
  std::stable_sort(runs.begin(), runs.end(), [&](const auto& a, const auto& b) {
    return std::pair(time(a.first), a.second) < std::pair(time(b.first), b.second);
  });
  int32_t largest = -1;
  for (const auto& [run, place] : runs) {
    if (place < largest) late->insert(run.id);
    largest = std::max(largest, place);
  }
}

}  // namespace

PlannedStep PlanStep(const query::Snapshot& snapshot, query::ScheduleId schedule) {
  PlannedStep planned;
  const auto row = snapshot.schedules.find(schedule);
  if (row == snapshot.schedules.end() || row->second.text.empty()) {
    planned.problem = PlanProblem::kNoSchedule;
    return planned;
  }
  const Result<plan::Schedule> parsed = plan::ParseSchedule(row->second.text);
  if (!parsed.ok()) {
    // An importer that inferred the ops says so instead of a Schedule.
    planned.problem = snapshot.IsImported() ? PlanProblem::kNoSchedule : PlanProblem::kUnreadable;
    return planned;
  }
  planned.schedules = SchedulesLike(snapshot, schedule);
  if (static_cast<size_t>(parsed->num_ranks()) != snapshot.ranks.size()) {
    planned.problem = PlanProblem::kMissingRanks;
    return planned;
  }
  const int32_t timed_from = analysis::TimedFrom(snapshot);
  std::vector<std::vector<query::Step>> steps;
  for (const query::RankRows& rows : snapshot.ranks) {
    steps.push_back(StepsOf(rows, planned.schedules, timed_from));
    if (steps.back().empty()) {
      planned.problem = PlanProblem::kNoStep;
      return planned;
    }
  }
  planned.num_steps = static_cast<int>(steps.front().size());
  const Result<simulate::StepTimes> times = Simulate(snapshot, *parsed, steps);
  if (!times.ok()) {
    planned.problem = PlanProblem::kUnreadable;
    return planned;
  }
  AddTimes(snapshot, *parsed, steps, *times, &planned);
  return planned;
}

PlanDifference CompareWithPlan(const query::Snapshot& snapshot, const PlannedStep& planned,
                               int32_t step) {
  PlanDifference difference{.step = step, .planned_ns = planned.length_ns};
  if (const auto times = query::TimesOfSteps(snapshot, step, step)) {
    difference.actual_ns = times->end_ns - times->start_ns;
  }
  for (const query::RankRows& rows : snapshot.ranks) {
    using Runs = std::vector<std::pair<query::OpRun, int32_t>>;
    Runs runs;
    std::map<query::TrackId, Runs> of_stream;
    rows.op_runs.ForEachOfSteps(step, step, [&](const query::OpRun& run, size_t) {
      const query::PlanOp* op = snapshot.FindPlanOp(run.plan_op);
      if (op == nullptr || !planned.schedules.contains(op->schedule)) return;
      runs.emplace_back(run, op->op);
      of_stream[run.track].emplace_back(run, op->op);
    });
    std::set<query::OpRunId> late;
    AddOutOfOrder(
        runs, [](const query::OpRun& run) { return run.issued_ns; }, &late);
    for (const auto& [track, on_stream] : of_stream) {
      AddOutOfOrder(
          on_stream, [](const query::OpRun& run) { return run.started_ns; }, &late);
    }
    for (const query::OpRunId id : late) difference.out_of_order.push_back({id, rows.rank});
  }
  return difference;
}

std::shared_ptr<const PlanBesideActual> PlanBeside(const query::Snapshot& snapshot, int32_t step,
                                                   const PlanBesideActual* known) {
  auto beside = std::make_shared<PlanBesideActual>();
  if (snapshot.ranks.empty() || snapshot.ranks.front().steps.empty()) {
    const bool is_of_other = snapshot.IsImported() || snapshot.meta.contains("recorded");
    beside->planned.problem = is_of_other ? PlanProblem::kNoSchedule : PlanProblem::kNoStep;
    return beside;
  }
  const query::RowList<query::Step>& steps = snapshot.ranks.front().steps;
  const auto found = std::ranges::find(steps, step, &query::Step::step);
  const query::Step& row = found == steps.end() ? steps.back() : *found;
  beside->step = row.step;
  const bool is_known = known != nullptr && known->planned.problem == PlanProblem::kNone &&
                        known->planned.schedules.contains(row.schedule);
  beside->planned = is_known ? known->planned : PlanStep(snapshot, row.schedule);
  if (beside->planned.problem == PlanProblem::kNone) {
    beside->difference = CompareWithPlan(snapshot, beside->planned, row.step);
  }
  return beside;
}

}  // namespace shardscope::ui
