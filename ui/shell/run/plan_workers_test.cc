#include "ui/shell/run/plan_workers.h"

#include <gtest/gtest.h>

#include <memory>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::shell {
namespace {

TEST(PlanWorkersTest, AStepThatRanWhenItWasAskedForIsShownOnceItIsOver) {
  PlanWorkers workers(nullptr);
  ui::PlanState plan{.is_on = true};
  workers.UpdatePlan(/*at_once=*/true, analysis::MakeLessonSnapshot(2, 4, 99), 5, &plan);
  ASSERT_NE(plan.made, nullptr);
  EXPECT_EQ(plan.made->step, 3);
  const auto before = plan.made;
  workers.UpdatePlan(true, analysis::MakeLessonSnapshot(2, 4, 99), 5, &plan);
  EXPECT_EQ(plan.made, before);  // nothing new is over
  workers.UpdatePlan(true, analysis::MakeLessonSnapshot(2, 6, 99), 5, &plan);
  EXPECT_EQ(plan.made->step, 5);
}

TEST(PlanWorkersTest, WhereOtherRowsTookThePlaceOfAllItIsMadeAnew) {
  PlanWorkers workers(nullptr);
  ui::PlanState plan{.is_on = true};
  workers.UpdatePlan(/*at_once=*/true, analysis::MakeLessonSnapshot(2, 4, 99), 1, &plan);
  ASSERT_NE(plan.made, nullptr);
  const int few = plan.made->planned.num_steps;
  workers.ForgetRows();
  workers.UpdatePlan(true, analysis::MakeLessonSnapshot(2, 12, 99), 1, &plan);
  EXPECT_EQ(plan.made->step, 1);
  EXPECT_GT(plan.made->planned.num_steps, few);  // the durations too
}

}  // namespace
}  // namespace shardscope::shell
