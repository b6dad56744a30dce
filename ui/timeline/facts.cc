#include "ui/timeline/facts.h"

#include <algorithm>
#include <vector>

#include "trace/analysis/names.h"
#include "trace/analysis/report/schedule_text.h"
#include "trace/analysis/steps/rank_step.h"
#include "ui/timeline/labels.h"
#include "ui/timeline/run_index.h"

namespace shardscope::timeline {
namespace {

using query::IsCompute;
using query::OpClass;

std::string NameOfRun(const query::Snapshot& snapshot, const query::RankRows& rows,
                      query::OpRunId id) {
  const uint32_t row = FindRow(rows, id);
  if (row == kNoRow) return "";
  const query::PlanOp* op = snapshot.FindPlanOp(rows.op_runs[row].plan_op);
  return op == nullptr ? "" : analysis::ShortName(*op);
}

// Rows of the same step stand near one another, in the order of their ends; those of a batch of an
// evaluation alone, between two steps.
template <typename Visit>
void ForEachOfStep(const query::RankRows& rows, uint32_t row, const Visit& visit) {
  const int32_t step = rows.op_runs[row].step;
  const auto before = [&](int32_t other) { return step < -1 ? other == step : other >= step; };
  const auto after = [&](int32_t other) { return step < -1 ? other == step : other <= step; };
  for (size_t at = row; at-- > 0 && before(rows.op_runs[at].step);) visit(rows.op_runs[at]);
  for (size_t at = row; at < rows.op_runs.size() && after(rows.op_runs[at].step); ++at) {
    visit(rows.op_runs[at]);
  }
}

void AddHidden(const query::Snapshot& snapshot, const query::RankRows& rows, uint32_t row,
               OpFacts* facts) {
  int64_t longest_ns = 0;
  ForEachOfStep(rows, row, [&](const query::OpRun& other) {
    const query::PlanOp* op = snapshot.FindPlanOp(other.plan_op);
    if (op == nullptr || !IsCompute(op->op_class)) return;
    const int64_t beside_ns = std::min(other.ended_ns, facts->run.ended_ns) -
                              std::max(other.started_ns, facts->run.started_ns);
    if (beside_ns <= 0) return;
    facts->hidden_ns += beside_ns;
    if (beside_ns <= longest_ns) return;
    longest_ns = beside_ns;
    facts->hidden_under = analysis::ShortName(*op);
  });
}

void AddCollective(const query::Snapshot& snapshot, const query::RankRows& rows, uint32_t row,
                   OpFacts* facts) {
  facts->arrivals = analysis::ArrivalsOf(snapshot, *facts->collective);
  const auto communicator = static_cast<size_t>(facts->collective->communicator);
  if (communicator < snapshot.communicators.size()) {
    facts->communicator = snapshot.communicators[communicator];
  }
  const auto schedule = snapshot.schedules.find(facts->op.schedule);
  if (schedule != snapshot.schedules.end() && !facts->op.unit.empty()) {
    facts->parameters = analysis::ParametersOf(schedule->second.text, facts->op.unit);
  }
  facts->truth = snapshot.truth;
  for (size_t at = rows.collectives.size(); at-- > 0;) {
    if (rows.collectives[at].op_run != facts->run.id) continue;
    facts->truth = rows.collectives[at].truth;
    break;
  }
  AddHidden(snapshot, rows, row, facts);
  if (facts->op.op_class != OpClass::kAllGather) return;
  facts->slack = analysis::SlackOf(snapshot, facts->run.id, rows.rank);
  if (facts->slack.found) {
    facts->first_use = NameOfRun(snapshot, rows, facts->slack.first_use_op_run);
  }
}

// The all-gather that was issued and is used in `range`, without anything waiting for it, and that
// took longest: a short one hides anywhere and its box can hardly be seen. nullopt if there is
// none.
std::optional<query::OpRunId> LongestHidden(const query::Snapshot& snapshot,
                                            const query::RankRows& rows, Range range) {
  constexpr int kEnough = 64;  // a view of many steps shows no single gather anyway
  // Backward prefetch is what most lessons are about: twice as long in forward to be preferred.
  constexpr int64_t kBackwardWeight = 2;
  std::optional<query::OpRunId> best;
  int64_t best_weight = 0;
  int seen = 0;
  const auto first = std::partition_point(
      rows.op_runs.begin(), rows.op_runs.end(),
      [range](const query::OpRun& run) { return run.ended_ns < range.start_ns; });
  for (auto run = first; run != rows.op_runs.end() && seen < kEnough; ++run) {
    if (run->started_ns >= range.end_ns) break;
    const query::PlanOp* op = snapshot.FindPlanOp(run->plan_op);
    if (op == nullptr || op->op_class != OpClass::kAllGather) continue;
    if (run->issued_ns < range.start_ns) continue;
    ++seen;
    const int64_t weight = (run->ended_ns - run->started_ns) *
                           (op->phase == Name(words::Phase::kBackward) ? kBackwardWeight : 1);
    if (weight <= best_weight) continue;
    const analysis::PrefetchSlack slack = analysis::SlackOf(snapshot, run->id, rows.rank);
    if (!slack.found || slack.slack_ns <= 0 || slack.first_use_ns >= range.end_ns) continue;
    best = run->id;
    best_weight = weight;
  }
  return best;
}

std::optional<query::OpRunId> BehindDearestStall(const query::Snapshot& snapshot,
                                                 const query::RankRows& rows, Range range) {
  int first_step = INT32_MAX;
  int last_step = -1;
  for (const query::Step& step : rows.steps) {
    if (step.end_ns <= range.start_ns || step.start_ns >= range.end_ns) continue;
    first_step = std::min(first_step, step.step);
    last_step = std::max(last_step, step.step);
  }
  if (last_step < 0) return std::nullopt;
  const std::vector<analysis::Stall> stalls = analysis::Stalls(snapshot, first_step, last_step);
  const analysis::Stall* dearest = nullptr;
  for (const analysis::Stall& stall : stalls) {
    if (stall.rank != rows.rank || stall.blocking_op_run.is_none()) continue;
    if (stall.start_ns < range.start_ns || stall.end_ns > range.end_ns) continue;
    if (stall.collective_kind != Name(words::OpKind::kAllGather)) continue;
    if (dearest == nullptr || stall.stall_ns > dearest->stall_ns) dearest = &stall;
  }
  if (dearest == nullptr) return std::nullopt;
  return dearest->blocking_op_run;
}

}  // namespace

OpFacts FactsOf(const query::Snapshot& snapshot, int32_t rank, query::OpRunId op_run) {
  OpFacts facts;
  const query::RankRows* rows = snapshot.FindRank(rank);
  if (rows == nullptr) return facts;
  const uint32_t row = FindRow(*rows, op_run);
  if (row == kNoRow) return facts;
  facts.run = rows->op_runs[row];
  const query::PlanOp* op = snapshot.FindPlanOp(facts.run.plan_op);
  if (op == nullptr) return facts;
  facts.found = true;
  facts.op = *op;
  facts.name = analysis::ShortName(*op);
  // Of other programs the collective alone says it.
  const auto precision = snapshot.config.find("precision.param");
  const std::string& type = precision == snapshot.config.end() ? op->dtype : precision->second;
  facts.has_half_parameters =
      type == Name(words::DType::kBf16) || type == Name(words::DType::kFp16);
  const query::PlanOp* blocking = snapshot.FindPlanOp(facts.run.blocking_plan_op);
  if (blocking != nullptr) facts.waited_for = analysis::ShortName(*blocking);
  facts.step_start_ns = snapshot.RunStartNs();
  for (size_t at = rows->steps.size(); at-- > 0 && rows->steps[at].step >= facts.run.step - 1;) {
    // The end of the step before is this one's start, also while this one goes on.
    const query::Step& step = rows->steps[at];
    if (step.step == facts.run.step - 1) facts.step_start_ns = step.end_ns;
    if (step.step == facts.run.step) facts.step_start_ns = step.start_ns;
  }
  for (const query::Evaluation& evaluation : rows->evaluations) {
    if (evaluation.BatchOf(facts.run.step) >= 0) facts.step_start_ns = evaluation.start_ns;
  }
  analysis::RankStep of_step = analysis::RankStepOf(snapshot, rank, facts.run.step);
  for (analysis::CollectiveRun& run : of_step.collectives) {
    if (run.op_run == facts.run.id) facts.collective = std::move(run);
  }
  if (facts.collective) AddCollective(snapshot, *rows, row, &facts);
  for (analysis::Stall& stall : of_step.stalls) {
    const bool own = facts.is_collective() ? stall.blocking_op_run == facts.run.id
                                           : stall.op_run == facts.run.id;
    if (own && (!facts.stall || stall.stall_ns > facts.stall->stall_ns)) {
      facts.stall = std::move(stall);
    }
  }
  return facts;
}

bool AreFactsOf(const OpFacts& facts, int32_t rank, query::OpRunId op_run) {
  return facts.found && facts.run.id == op_run && facts.run.rank == rank;
}

bool AreSettled(const OpFacts& facts, const query::Snapshot& snapshot) {
  const query::RankRows* rows = snapshot.FindRank(facts.run.rank);
  return rows != nullptr && !rows->steps.empty() && rows->steps.back().step > facts.run.step;
}

double LinkHeadroom(const OpFacts& facts) {
  if (!facts.collective || !facts.slack.found) return 0;
  const auto transfer = static_cast<double>(facts.collective->transfer_ns);
  const auto slack = static_cast<double>(facts.slack.slack_ns);
  if (slack <= 0 || transfer <= 0) return 0;
  return (transfer + slack) / transfer;
}

std::optional<query::OpRunId> MostInstructiveOp(const query::Snapshot& snapshot, Range range) {
  if (snapshot.ranks.empty()) return std::nullopt;
  const query::RankRows& rows = snapshot.ranks.front();
  for (const Change& change : ChangesOf(snapshot)) {
    if (change.time_ns < range.start_ns || change.time_ns >= range.end_ns) continue;
    const std::optional<query::OpRunId> hidden =
        LongestHidden(snapshot, rows, {change.time_ns, range.end_ns});
    if (hidden) return hidden;
  }
  const std::optional<query::OpRunId> behind_stall = BehindDearestStall(snapshot, rows, range);
  return behind_stall ? behind_stall : LongestHidden(snapshot, rows, range);
}

}  // namespace shardscope::timeline
