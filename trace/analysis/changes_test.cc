#include "trace/analysis/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/report/report.h"
#include "trace/query/rows.h"

namespace shardscope::analysis {
namespace {

using testing::HasSubstr;
using testing::Not;

query::Marker Turned(int32_t step, const char* key, const char* from, const char* to) {
  return {.step = step, .kind = "change", .key = key, .old_value = from, .new_value = to};
}

std::vector<StepBreakdown> Steps(int ranks, int steps) {
  return Breakdowns(*MakeLessonSnapshot(ranks, steps, 999));
}

TEST(Changes, TakeAsManyStepsBeforeAsAfter) {
  const auto lesson = MakeLessonSnapshot(2, 24, 12);
  const auto effects = EffectsOfChanges(Breakdowns(*lesson), lesson->markers);
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].step, 12);
  EXPECT_EQ(effects[0].num_steps, 12 - kWarmUpSteps);
  EXPECT_EQ(effects[0].before.num_steps, effects[0].num_steps);
  EXPECT_EQ(effects[0].after.num_steps, effects[0].num_steps);
  EXPECT_LT(effects[0].after.exposed_ns.p50, effects[0].before.exposed_ns.p50);
}

TEST(Changes, EndAtTheNextOneAndAtTheLastStepThatAllRanksFinished) {
  std::vector<StepBreakdown> steps = Steps(2, 30);
  std::erase_if(steps, [](const auto& row) { return row.rank == 1 && row.step > 27; });
  const auto effects =
      EffectsOfChanges(steps, {Turned(20, "b", "1", "2"), Turned(8, "a", "1", "2"),
                               Turned(20, "c", "1", "2"), Turned(25, "a", "2", "3")});
  ASSERT_EQ(effects.size(), 3U);
  EXPECT_EQ(effects[0].num_steps, 8 - kWarmUpSteps);  // of twelve after it
  EXPECT_EQ(effects[1].markers.size(), 2U);           // both knobs of one step
  EXPECT_EQ(effects[1].num_steps, 5);
  EXPECT_EQ(effects[2].num_steps, 3);  // 25, 26, 27
  EXPECT_TRUE(effects[2].complete());
}

TEST(Changes, ManyStepsAreNotAllTaken) {
  const auto effects = EffectsOfChanges(Steps(1, 120), {Turned(60, "a", "1", "2")});
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].num_steps, kMaxChangeSteps);
}

TEST(Changes, InWarmUpOrAtTheEndCompareNothing) {
  const auto effects =
      EffectsOfChanges(Steps(1, 10), {Turned(1, "a", "1", "2"), Turned(10, "a", "2", "3")});
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_EQ(effects[0].num_steps, 0);
  EXPECT_EQ(effects[1].num_steps, 0);
  EXPECT_FALSE(effects[1].complete());
}

TEST(Changes, AFoundValueAndTheSameValueAreNone) {
  EXPECT_FALSE(IsKnobChange(Turned(5, "link.bandwidth", "auto:0.6", "1GB/s")));
  EXPECT_FALSE(IsKnobChange(Turned(5, "train.lr", "0.1", "0.1")));
  EXPECT_FALSE(IsKnobChange(query::Marker{.step = 5, .kind = "pause"}));
  EXPECT_TRUE(IsKnobChange(Turned(5, "train.lr", "0.1", "0.2")));
  EXPECT_TRUE(EffectsOfChanges(Steps(1, 10), {{.step = 5, .kind = "stop"}}).empty());
}

TEST(Changes, WithinTheSpreadOfEitherSideAreNoise) {
  EXPECT_TRUE(IsBeyondNoise({.p50 = 100, .p95 = 110}, {.p50 = 80, .p95 = 85}));
  EXPECT_FALSE(IsBeyondNoise({.p50 = 100, .p95 = 130}, {.p50 = 80, .p95 = 85}));
  EXPECT_FALSE(IsBeyondNoise({.p50 = 100, .p95 = 101}, {.p50 = 80, .p95 = 105}));
  EXPECT_FALSE(IsBeyondNoise({.p50 = 100, .p95 = 100}, {.p50 = 99.5, .p95 = 99.5}));
}

TEST(Changes, TheReportSaysWhatEachDid) {
  const Report lesson = MakeReport(*MakeLessonSnapshot(2, 24, 12));
  const std::string text = PrintReportText(lesson);
  EXPECT_THAT(text, HasSubstr("\n  step 12: prefetch.backward none -> pre"));
  EXPECT_THAT(text, HasSubstr("\n    10 steps each: step "));
  EXPECT_THAT(text, HasSubstr("exposed communication emulated "));
  EXPECT_THAT(PrintReportText(MakeReport(*MakeLessonSnapshot(2, 13, 12))),
              HasSubstr("too few steps beside it to compare: 1 of 3"));
  EXPECT_THAT(PrintReportText(MakeReport(*MakeLessonSnapshot(2, 13, 99))),
              Not(HasSubstr("Changes")));
}

}  // namespace
}  // namespace shardscope::analysis
