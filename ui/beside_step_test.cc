#include "ui/beside_step.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/moment/moment.h"
#include "trace/analysis/scope.h"

namespace shardscope::ui {
namespace {

// Steps of A have no prefetch, those of B have it from step 0 on.
class BesideStepTest : public testing::Test {
 protected:
  BesideStepTest() : a_(analysis::MakeLessonSnapshot(2, 12, 99)) {
    compared_.with.path = "b";
    compared_.b = analysis::MakeLessonSnapshot(2, 10, 0);
    Compare();
  }
  void Compare() {
    const query::Snapshot& b = compared_.b == nullptr ? *a_ : *compared_.b;
    compared_.comparison =
        analysis::Compare({a_.get(), compared_.with.steps_a.value_or(analysis::Scope()), "a"},
                          {&b, compared_.with.steps_b.value_or(analysis::Scope()), "b"});
  }
  std::shared_ptr<const BesideStep> Beside(int32_t step,
                                           const std::optional<SelectedOp>& selected = {}) {
    return StepBeside(*a_, compared_, step, selected);
  }
  query::OpRun OpOf(const query::Snapshot& snapshot, int32_t rank, int32_t step,
                    const std::string& name) const {
    const query::RankRows& rows = *snapshot.FindRank(rank);
    const auto found = std::find_if(rows.op_runs.begin(), rows.op_runs.end(), [&](const auto& run) {
      return run.step == step && snapshot.FindPlanOp(run.plan_op)->name == name;
    });
    EXPECT_NE(found, rows.op_runs.end()) << name;
    return *found;
  }

  query::SnapshotPtr a_;
  Compared compared_;
};

TEST_F(BesideStepTest, IsTheStepWithTheSameNumberAsItWas) {
  const auto beside = Beside(6);
  ASSERT_EQ(beside->step_a, 6);
  ASSERT_EQ(beside->step_b, 6);
  const Interval a = analysis::TimesOfStep(*a_, 6).value();
  const Interval b = analysis::TimesOfStep(*compared_.b, 6).value();
  EXPECT_EQ(beside->start_ns, a.start_ns);
  EXPECT_EQ(beside->a_ns, a.end_ns - a.start_ns);
  EXPECT_EQ(beside->b_ns, b.end_ns - b.start_ns);
  EXPECT_EQ(beside->shown_at_ns(), a.start_ns);
  EXPECT_FALSE(beside->has_selected);
  ASSERT_EQ(beside->ranks.size(), 2u);
  for (const query::RankRows& rows : compared_.b->ranks) {
    const std::vector<BesideOp>& ops = beside->ranks.at(rows.rank);
    size_t at = 0;
    int64_t sum_ns = 0;
    int64_t expected_ns = 0;
    rows.op_runs.ForEachOfSteps(6, 6, [&](const query::OpRun& run, size_t) {
      ++at;
      expected_ns += run.ended_ns - run.started_ns;
    });
    for (const BesideOp& op : ops) {
      sum_ns += op.ended_ns - op.started_ns;
      EXPECT_GE(op.started_ns, 0);
      EXPECT_LE(op.ended_ns, beside->b_ns);
    }
    EXPECT_EQ(ops.size(), at);
    EXPECT_EQ(sum_ns, expected_ns);
    EXPECT_TRUE(std::ranges::is_sorted(ops, {}, &BesideOp::started_ns));
  }
}

TEST_F(BesideStepTest, BeyondTheLastStepItIsTheLast) {
  EXPECT_EQ(Beside(11)->step_a, 11);
  EXPECT_EQ(Beside(11)->step_b, 9);
  EXPECT_EQ(Beside(77)->step_a, 11);  // the newest of A
  EXPECT_EQ(Beside(-1)->step_a, 11);
}

TEST_F(BesideStepTest, OfRangesItIsTheSamePlace) {
  compared_.with = {.path = "",
                    .steps_a = analysis::ParseSteps("2:6").value(),
                    .steps_b = analysis::ParseSteps("6:10").value()};
  compared_.b = nullptr;
  Compare();
  EXPECT_EQ(Beside(3)->step_b, 7);
  EXPECT_EQ(Beside(1)->step_b, -1);  // nothing before the range
  EXPECT_EQ(Beside(6)->step_b, -1);  // nor behind it
}

TEST_F(BesideStepTest, TheSelectedOpStandsOverTheSameOneOfB) {
  const std::string name = "B m0 block0 all_gather";
  const query::OpRun& a = OpOf(*a_, 1, 6, name);
  const query::OpRun& b = OpOf(*compared_.b, 1, 6, name);
  const auto beside = Beside(6, SelectedOp{a.id, 1});
  EXPECT_TRUE(beside->has_selected);
  ASSERT_TRUE(beside->match);
  EXPECT_EQ(beside->match->a_ns, a.ended_ns - a.started_ns);
  EXPECT_EQ(beside->match->b_ns, b.ended_ns - b.started_ns);
  EXPECT_LT(beside->match->later_ns, 0);  // it is prefetched
  const int64_t b_start_ns = analysis::TimesOfStep(*compared_.b, 6).value().start_ns;
  EXPECT_EQ(beside->shown_at_ns() + b.started_ns - b_start_ns, a.started_ns);
  // An op of another step says nothing of this one.
  EXPECT_FALSE(Beside(5, SelectedOp{a.id, 1})->has_selected);
}

TEST_F(BesideStepTest, AnOpThatBDoesNotHaveIsSaid) {
  compared_.b = analysis::MakeLessonSnapshot(1, 10, 0);
  Compare();
  const query::OpRun& a = OpOf(*a_, 1, 6, "B m0 block0 all_gather");
  const auto beside = Beside(6, SelectedOp{a.id, 1});
  EXPECT_TRUE(beside->has_selected);
  EXPECT_FALSE(beside->match);
  EXPECT_EQ(beside->ranks.size(), 1u);
  EXPECT_EQ(beside->num_missing_ranks, 0);  // it is A that has more
}

}  // namespace
}  // namespace shardscope::ui
