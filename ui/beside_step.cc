#include "ui/beside_step.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>

#include "trace/analysis/moment/moment.h"
#include "trace/analysis/steps/breakdown.h"
#include "trace/query/find_track.h"

namespace shardscope::ui {
namespace {

bool IsFinished(const query::Snapshot& snapshot, int64_t step) {
  return step >= 0 && step <= analysis::NewestStepOfAll(snapshot) &&
         analysis::TimesOfStep(snapshot, static_cast<int32_t>(step)).ok();
}

// -1: none.
int32_t StepOfB(const Compared& compared, const query::Snapshot& b, int32_t step_a) {
  const ComparedWith& with = compared.with;
  if (!with.steps_a && !with.steps_b) {
    return IsFinished(b, step_a) ? step_a : analysis::NewestStepOfAll(b);
  }
  const analysis::ComparedSide& side_a = compared.comparison.a;
  const analysis::ComparedSide& side_b = compared.comparison.b;
  const int64_t begin_a = with.steps_a ? with.steps_a->first : side_a.first_step;
  const int64_t begin_b = with.steps_b ? with.steps_b->first : side_b.first_step;
  const int64_t step = step_a - begin_a + begin_b;
  const bool is_within =
      step_a >= begin_a && step_a <= side_a.last_step && step <= side_b.last_step;
  return is_within && IsFinished(b, step) ? static_cast<int32_t>(step) : -1;
}

// What makes an op of A and one of B the same.
using OpKey = std::tuple<std::string, std::string, int32_t, std::string>;
OpKey KeyOf(const query::PlanOp& op, const std::map<std::string, std::string>* name_in_a) {
  std::string unit = op.unit.empty() ? op.segment : op.unit;
  if (name_in_a != nullptr) {
    const auto named = name_in_a->find(unit);
    if (named != name_in_a->end()) unit = named->second;
  }
  return {op.kind, op.phase, op.micro_batch, std::move(unit)};
}

// Of one rank in one step, by start.
std::vector<query::OpRun> RunsOfStep(const query::RankRows& rows, int32_t step) {
  std::vector<query::OpRun> runs;
  rows.op_runs.ForEachOfSteps(step, step,
                              [&](const query::OpRun& run, size_t) { runs.push_back(run); });
  std::ranges::stable_sort(runs, {}, &query::OpRun::started_ns);
  return runs;
}

struct StepOfRank {
  const query::Snapshot& run;
  const query::RankRows& rows;
  int32_t step;
  int64_t start_ns;  // of the step, on the run's first rank
};

std::optional<BesideMatch> MatchOf(const StepOfRank& a, const StepOfRank& b,
                                   const std::map<std::string, std::string>& name_in_a,
                                   const query::OpRun& selected) {
  const query::PlanOp* op = a.run.FindPlanOp(selected.plan_op);
  if (op == nullptr) return std::nullopt;
  const OpKey key = KeyOf(*op, nullptr);
  size_t nth = 0;  // of A's ops with this key
  for (const query::OpRun& run : RunsOfStep(a.rows, a.step)) {
    if (run.id == selected.id) break;
    const query::PlanOp* other = a.run.FindPlanOp(run.plan_op);
    if (other != nullptr && KeyOf(*other, nullptr) == key) ++nth;
  }
  for (const query::OpRun& run : RunsOfStep(b.rows, b.step)) {
    const query::PlanOp* other = b.run.FindPlanOp(run.plan_op);
    if (other == nullptr || KeyOf(*other, &name_in_a) != key) continue;
    if (nth-- > 0) continue;
    return BesideMatch{
        .a_ns = selected.ended_ns - selected.started_ns,
        .b_ns = run.ended_ns - run.started_ns,
        .later_ns = (run.started_ns - b.start_ns) - (selected.started_ns - a.start_ns)};
  }
  return std::nullopt;
}

}  // namespace

std::shared_ptr<const BesideStep> StepBeside(const query::Snapshot& a, const Compared& compared,
                                             int32_t step,
                                             const std::optional<SelectedOp>& selected) {
  auto beside = std::make_shared<BesideStep>();
  const query::Snapshot& b = compared.b == nullptr ? a : *compared.b;
  beside->step_a = IsFinished(a, step) ? step : analysis::NewestStepOfAll(a);
  if (beside->step_a < 0) return beside;
  const Interval times_a = analysis::TimesOfStep(a, beside->step_a).value();
  beside->start_ns = times_a.start_ns;
  beside->a_ns = times_a.end_ns - times_a.start_ns;
  beside->step_b = StepOfB(compared, b, beside->step_a);
  if (beside->step_b < 0) return beside;
  const Interval times_b = analysis::TimesOfStep(b, beside->step_b).value();
  beside->b_ns = times_b.end_ns - times_b.start_ns;
  const auto role_of_track = query::RolesOfTracks(b);
  for (const query::RankRows& rows : b.ranks) {
    if (a.FindRank(rows.rank) == nullptr) {
      ++beside->num_missing_ranks;
      continue;
    }
    std::vector<BesideOp>& ops = beside->ranks[rows.rank];
    for (const query::OpRun& run : RunsOfStep(rows, beside->step_b)) {
      const auto role = role_of_track.find(run.track);
      const query::PlanOp* op = b.FindPlanOp(run.plan_op);
      if (role == role_of_track.end() || op == nullptr) continue;
      ops.push_back({role->second, op->op_class, run.started_ns - times_b.start_ns,
                     run.ended_ns - times_b.start_ns});
    }
  }
  if (!selected) return beside;
  const query::RankRows* rows = a.FindRank(selected->rank);
  const query::RankRows* rows_of_b = b.FindRank(selected->rank);
  if (rows == nullptr) return beside;
  for (const query::OpRun& run : RunsOfStep(*rows, beside->step_a)) {
    if (run.id != selected->op_run) continue;
    beside->has_selected = true;
    if (rows_of_b == nullptr) break;
    beside->match = MatchOf({a, *rows, beside->step_a, beside->start_ns},
                            {b, *rows_of_b, beside->step_b, times_b.start_ns},
                            compared.comparison.units.name_in_a, run);
  }
  return beside;
}

}  // namespace shardscope::ui
