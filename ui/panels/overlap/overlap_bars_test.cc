#include "ui/panels/overlap/overlap_bars.h"

#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"

namespace shardscope::panels {
namespace {

TEST(OverlapBarsTest, OneBarAStepAddsUpToTheStep) {
  const auto steps = analysis::Breakdowns(*analysis::MakeLessonSnapshot(2, 10, 5));
  const std::vector<OverlapBar> bars = MakeBars(steps, 1, 100, 5);
  ASSERT_EQ(bars.size(), 8U);  // two steps of warm-up are left out
  for (const OverlapBar& bar : bars) {
    EXPECT_EQ(bar.first_step, bar.last_step);
    for (const analysis::StepBreakdown& step : steps) {
      if (step.rank != 1 || step.step != bar.first_step) continue;
      EXPECT_DOUBLE_EQ(bar.total_ns(), static_cast<double>(step.step_ns));
      EXPECT_DOUBLE_EQ(bar.exposed_ns, static_cast<double>(step.time.exposed_ns));
    }
  }
  EXPECT_GT(bars.front().exposed_ns, bars.back().exposed_ns);
  EXPECT_LT(bars.front().overlap_ratio, bars.back().overlap_ratio);
}

TEST(OverlapBarsTest, ManyStepsShareBarsButNotAcrossTheChange) {
  const auto steps = analysis::Breakdowns(*analysis::MakeLessonSnapshot(1, 60, 31));
  const std::vector<OverlapBar> bars = MakeBars(steps, 0, 10, 31);
  EXPECT_LE(bars.size(), 10U);
  EXPECT_GE(bars.size(), 5U);
  int32_t next = analysis::kWarmUpSteps;
  for (const OverlapBar& bar : bars) {
    EXPECT_EQ(bar.first_step, next);
    EXPECT_FALSE(bar.first_step < 31 && bar.last_step >= 31);
    next = bar.last_step + 1;
  }
  EXPECT_EQ(next, 60);
}

TEST(OverlapBarsTest, WarmUpIsShownWhenThereIsNothingElse) {
  const auto steps = analysis::Breakdowns(*analysis::MakeLessonSnapshot(1, 2, 9));
  EXPECT_EQ(MakeBars(steps, 0, 10, -1).size(), 2U);
  EXPECT_TRUE(MakeBars(steps, 7, 10, -1).empty());
}

}  // namespace
}  // namespace shardscope::panels
