#include "ui/planned_step.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/moment/moment.h"
#include "trace/store/row_batch.h"

namespace shardscope::ui {
namespace {

// The lesson's ops take nearly the same in all steps, in virtual time by the same rules.
class PlannedStepTest : public testing::Test {
 protected:
  PlannedStepTest() : snapshot_(analysis::MakeLessonSnapshot(2, 12, 99)) {}

  query::SnapshotPtr snapshot_;
};

TEST_F(PlannedStepTest, IsWhatTheRunDidWhereItDidWhatIsPlanned) {
  const auto beside = PlanBeside(*snapshot_, 5, nullptr);
  ASSERT_EQ(beside->planned.problem, PlanProblem::kNone);
  EXPECT_EQ(beside->step, 5);
  EXPECT_EQ(beside->planned.num_steps, 10);  // without two of warm-up
  EXPECT_TRUE(beside->difference.out_of_order.empty());
  const Interval times = analysis::TimesOfStep(*snapshot_, 5).value();
  EXPECT_EQ(beside->difference.actual_ns, times.end_ns - times.start_ns);
  EXPECT_NEAR(static_cast<double>(beside->difference.planned_ns),
              static_cast<double>(beside->difference.actual_ns),
              0.03 * static_cast<double>(beside->difference.actual_ns));
  ASSERT_EQ(beside->planned.ranks.size(), 2u);
  // Each op that took time is there, near its place.
  for (const query::RankRows& rows : snapshot_->ranks) {
    const std::vector<PlannedOp>& planned = beside->planned.ranks.at(rows.rank);
    size_t runs = 0;
    int64_t start_ns = 0;
    rows.steps.ForEachOfSteps(5, 5,
                              [&](const query::Step& step, size_t) { start_ns = step.start_ns; });
    rows.op_runs.ForEachOfSteps(5, 5, [&](const query::OpRun& run, size_t) {
      if (run.ended_ns <= run.started_ns) return;
      ++runs;
      const auto op = std::ranges::find(planned, run.plan_op, &PlannedOp::plan_op);
      ASSERT_NE(op, planned.end());
      EXPECT_NEAR(static_cast<double>(op->started_ns),
                  static_cast<double>(run.started_ns - start_ns),
                  0.03 * static_cast<double>(times.end_ns - times.start_ns));
    });
    EXPECT_EQ(planned.size(), runs);
  }
}

// As the Snapshot is of a run whose ranks are processes, each with a trace file and ids of its own.
query::Snapshot OfTwoFiles(const query::Snapshot& one) {
  const auto shift = [](auto id) {
    return id.is_none() ? id : decltype(id)(id.value() + store::kIdsPerFile);
  };
  query::Snapshot two = one;
  for (const auto& [id, row] : one.schedules) {
    query::Schedule& other = two.schedules[shift(id)] = row;
    other.id = shift(id);
  }
  for (const auto& [id, row] : one.plan_ops) {
    query::PlanOp& other = two.plan_ops[shift(id)] = row;
    other.id = shift(id);
    other.schedule = shift(row.schedule);
    for (auto* ids : {&other.predecessors, &other.host_predecessors, &other.successors}) {
      for (query::PlanOpId& of_edge : *ids) of_edge = shift(of_edge);
    }
  }
  query::RankRows& rows = two.ranks[1];
  rows.op_runs = {};
  for (query::OpRun run : one.ranks[1].op_runs) {
    run.plan_op = shift(run.plan_op);
    run.blocking_plan_op = shift(run.blocking_plan_op);
    rows.op_runs.Append(run);
  }
  rows.steps = {};
  for (query::Step step : one.ranks[1].steps) {
    step.schedule = shift(step.schedule);
    rows.steps.Append(step);
  }
  return two;
}

TEST_F(PlannedStepTest, EachFileOfARunHasARowOfTheSchedule) {
  const query::Snapshot two = OfTwoFiles(*snapshot_);
  const auto beside = PlanBeside(two, 5, nullptr);
  ASSERT_EQ(beside->planned.problem, PlanProblem::kNone);
  const auto expected = PlanBeside(*snapshot_, 5, nullptr);
  EXPECT_EQ(beside->planned.schedules.size(), 2 * expected->planned.schedules.size());
  EXPECT_EQ(beside->planned.length_ns, expected->planned.length_ns);
  EXPECT_TRUE(beside->difference.out_of_order.empty());
  for (const auto& [rank, ops] : expected->planned.ranks) {
    const std::vector<PlannedOp>& of_files = beside->planned.ranks.at(rank);
    ASSERT_EQ(of_files.size(), ops.size());
    for (size_t at = 0; at < ops.size(); ++at) {
      EXPECT_EQ(of_files[at].plan_op.value() % store::kIdsPerFile, ops[at].plan_op.value());
      EXPECT_EQ(of_files[at].plan_op.value() / store::kIdsPerFile, rank);
      EXPECT_EQ(of_files[at].started_ns, ops[at].started_ns);
    }
  }
}

TEST_F(PlannedStepTest, OfOneScheduleItIsMadeOnce) {
  const auto first = PlanBeside(*snapshot_, 5, nullptr);
  const auto second = PlanBeside(*snapshot_, 6, first.get());
  EXPECT_EQ(second->step, 6);
  EXPECT_EQ(second->planned.length_ns, first->planned.length_ns);
  EXPECT_NE(second->difference.actual_ns, first->difference.actual_ns);
  EXPECT_EQ(PlanBeside(*snapshot_, 77, nullptr)->step, 11);  // the newest that there is
}

TEST_F(PlannedStepTest, OpsThatRanInAnotherOrderAreNamed) {
  query::Snapshot swapped = *snapshot_;
  query::RankRows& rows = swapped.ranks[1];
  // Two all-gathers of step 5 change their times.
  std::vector<size_t> gathers;
  rows.op_runs.ForEachOfSteps(5, 5, [&](const query::OpRun& run, size_t at) {
    if (swapped.FindPlanOp(run.plan_op)->kind == "all_gather") gathers.push_back(at);
  });
  ASSERT_GT(gathers.size(), 3u);
  query::RowList<query::OpRun> changed;
  for (size_t at = 0; at < rows.op_runs.size(); ++at) {
    query::OpRun run = rows.op_runs[at];
    const query::OpRun other = rows.op_runs[at == gathers[1]   ? gathers[2]
                                            : at == gathers[2] ? gathers[1]
                                                               : at];
    run.started_ns = other.started_ns;
    run.ended_ns = other.ended_ns;
    changed.Append(run);
  }
  rows.op_runs = changed;
  const auto beside = PlanBeside(swapped, 5, nullptr);
  // The one that is late now, and what the stream has between the two.
  const std::vector<SelectedOp>& late = beside->difference.out_of_order;
  EXPECT_TRUE(std::ranges::count(late, SelectedOp{changed[gathers[1]].id, 1}) == 1);
  EXPECT_TRUE(std::ranges::count(late, SelectedOp{changed[gathers[2]].id, 1}) == 0);
  for (const SelectedOp& op : late) {
    EXPECT_EQ(op.rank, 1);
    const auto run = std::ranges::find(changed, op.op_run, &query::OpRun::id);
    EXPECT_EQ(run->track, changed[gathers[1]].track);
    EXPECT_LE(snapshot_->FindPlanOp(run->plan_op)->op,
              snapshot_->FindPlanOp(changed[gathers[2]].plan_op)->op);
  }
  EXPECT_TRUE(PlanBeside(swapped, 4, nullptr)->difference.out_of_order.empty());
}

TEST_F(PlannedStepTest, SaysWhyThereIsNone) {
  const auto problem_of = [](const query::Snapshot& snapshot) {
    return PlanBeside(snapshot, 5, nullptr)->planned.problem;
  };
  query::Snapshot snapshot = *snapshot_;
  for (auto& [id, schedule] : snapshot.schedules) schedule.text = "no schedule";
  EXPECT_EQ(problem_of(snapshot), PlanProblem::kUnreadable);
  snapshot.meta["imported"] = "torch";  // what was inferred has no plan
  EXPECT_EQ(problem_of(snapshot), PlanProblem::kNoSchedule);
  for (auto& [id, schedule] : snapshot.schedules) schedule.text.clear();
  EXPECT_EQ(problem_of(snapshot), PlanProblem::kNoSchedule);
  snapshot = *snapshot_;
  snapshot.ranks.pop_back();
  EXPECT_EQ(problem_of(snapshot), PlanProblem::kMissingRanks);
  snapshot = *snapshot_;
  snapshot.ranks[1].steps = {};  // the other one's are not enough
  EXPECT_EQ(problem_of(snapshot), PlanProblem::kNoStep);
  EXPECT_EQ(problem_of(query::Snapshot()), PlanProblem::kNoStep);
  for (const char* key : {"imported", "recorded"}) {  // no step of a Schedule will come
    snapshot = query::Snapshot();
    snapshot.meta[key] = "snapshot";
    EXPECT_EQ(problem_of(snapshot), PlanProblem::kNoSchedule);
  }
}

}  // namespace
}  // namespace shardscope::ui
