#include "trace/analysis/changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/compare/comparison.h"
#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"
#include "trace/base/time.h"
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

TEST(Changes, TakeTheStepsThatEachSideHas) {
  const auto lesson = MakeLessonSnapshot(2, 24, 12);
  const auto effects = EffectsOfChanges(Breakdowns(*lesson), lesson->markers);
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].step, 12);
  EXPECT_EQ(effects[0].before.num_steps, 12 - kWarmUpSteps);
  EXPECT_EQ(effects[0].after.num_steps, 24 - 12);
  EXPECT_LT(effects[0].after.exposed_ns.p50, effects[0].before.exposed_ns.p50);
}

TEST(Changes, EndAtTheNextOneAndAtTheLastStepThatAllRanksFinished) {
  std::vector<StepBreakdown> steps = Steps(2, 30);
  std::erase_if(steps, [](const auto& row) { return row.rank == 1 && row.step > 27; });
  const auto effects =
      EffectsOfChanges(steps, {Turned(20, "b", "1", "2"), Turned(8, "a", "1", "2"),
                               Turned(20, "c", "1", "2"), Turned(25, "a", "2", "3")});
  ASSERT_EQ(effects.size(), 3U);
  EXPECT_EQ(effects[0].before.num_steps, 8 - kWarmUpSteps);
  EXPECT_EQ(effects[0].after.num_steps, 20 - 8);
  EXPECT_EQ(effects[1].markers.size(), 2U);  // both knobs of one step
  EXPECT_EQ(effects[1].before.num_steps, 20 - 8);
  EXPECT_EQ(effects[1].after.num_steps, 5);
  EXPECT_EQ(effects[2].before.num_steps, 5);
  EXPECT_EQ(effects[2].after.num_steps, 3);  // 25, 26, 27
  EXPECT_TRUE(effects[2].complete());
}

TEST(Changes, ManyStepsAreNotAllTaken) {
  const auto effects = EffectsOfChanges(Steps(1, 120), {Turned(60, "a", "1", "2")});
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].before.num_steps, kMaxChangeSteps);
  EXPECT_EQ(effects[0].after.num_steps, kMaxChangeSteps);
}

TEST(Changes, InWarmUpOrAtTheEndCompareNothing) {
  const auto effects =
      EffectsOfChanges(Steps(1, 10), {Turned(1, "a", "1", "2"), Turned(10, "a", "2", "3")});
  ASSERT_EQ(effects.size(), 2U);
  EXPECT_EQ(effects[0].before.num_steps, 0);
  EXPECT_EQ(effects[0].after.num_steps, 10 - kWarmUpSteps);
  EXPECT_EQ(effects[1].before.num_steps, 10 - kWarmUpSteps);
  EXPECT_EQ(effects[1].after.num_steps, 0);
  for (const ChangeEffect& effect : effects) {
    EXPECT_FALSE(effect.complete());
    EXPECT_EQ(effect.step_verdict(), ComparisonVerdict::kNotComparable);
  }
}

TEST(Changes, AFoundValueAndTheSameValueAreNone) {
  EXPECT_FALSE(IsKnobChange(Turned(5, "link.bandwidth", "auto:0.6", "1GB/s")));
  EXPECT_FALSE(IsKnobChange(Turned(5, "train.lr", "0.1", "0.1")));
  EXPECT_FALSE(IsKnobChange(query::Marker{.step = 5, .kind = "pause"}));
  EXPECT_TRUE(IsKnobChange(Turned(5, "train.lr", "0.1", "0.2")));
  EXPECT_TRUE(EffectsOfChanges(Steps(1, 10), {{.step = 5, .kind = "stop"}}).empty());
}

// A run of one rank that computes all the time, its steps from kWarmUpSteps on as long as this
// says.
query::SnapshotPtr RunOfSteps(const std::vector<int64_t>& steps_ms,
                              const std::vector<query::Marker>& markers) {
  TestSnapshot test(1);
  const query::PlanOpId forward = test.Plan("forward", "forward", "block0");
  int64_t now_ns = kNsPerSecond;
  int32_t step = kWarmUpSteps;
  for (const int64_t step_ms : steps_ms) {
    const int64_t end_ns = now_ns + step_ms * kNsPerMs;
    test.Run(0, step, forward, now_ns, end_ns);
    test.Step(0, step++, now_ns, end_ns);
    now_ns = end_ns;
  }
  test.snapshot().markers = markers;
  return test.Build();
}

// Two knobs turned four steps apart. The medians differ by far more than each side spreads, but
// with one short step behind the change as few as these tell nothing.
TEST(Changes, AreJudgedAsCompareJudgesTheSameSteps) {
  for (const int64_t short_ms : {620, 1'090}) {
    const query::SnapshotPtr run =
        RunOfSteps({560, 640, 610, 700, short_ms, 1'150, 1'050, 1'160},
                   {Turned(2, "a", "1", "2"), Turned(6, "a", "2", "3"), Turned(10, "a", "3", "4")});
    const auto effects = EffectsOfChanges(Breakdowns(*run), run->markers);
    ASSERT_EQ(effects.size(), 3U);
    const ChangeEffect& effect = effects[1];
    EXPECT_EQ(effect.before.num_steps, 4);
    EXPECT_EQ(effect.after.num_steps, 4);
    EXPECT_TRUE(effect.complete());
    EXPECT_EQ(effect.step_verdict(),
              short_ms < 700 ? ComparisonVerdict::kWithinNoise : ComparisonVerdict::kWorse);
    const Comparison compared =
        Compare({run.get(), {.kind = ScopeKind::kSteps, .first = 2, .last = 5}, "A"},
                {run.get(), {.kind = ScopeKind::kSteps, .first = 6, .last = 9}, "B"});
    EXPECT_EQ(compared.verdict, effect.step_verdict());
    EXPECT_EQ(compared.step.a_ns, effect.step_ns.a_ns);
    EXPECT_EQ(compared.step.b_ns, effect.step_ns.b_ns);
    EXPECT_EQ(compared.step.shift.low_ns, effect.step_ns.shift.low_ns);
    EXPECT_EQ(compared.step.shift.high_ns, effect.step_ns.shift.high_ns);
    const std::string text = PrintChanges(MakeReport(*run));
    EXPECT_THAT(text, HasSubstr("\n    4 steps before, 4 after: step 625 ms -> "));
    EXPECT_EQ(text.find("%)") == std::string::npos, short_ms < 700) << text;
  }
}

TEST(Changes, OfAnExposedTimeAreJudgedByTheStep) {
  std::vector<StepBreakdown> steps;
  for (int32_t step = 0; step < 24; ++step) {
    StepBreakdown& row = steps.emplace_back();
    row.step = step;
    row.step_ns = 100 * kNsPerMs;
    row.time.exposed_ns = step < 12 ? 0 : 2 * kNsPerMs;
  }
  const auto effects = EffectsOfChanges(steps, {Turned(12, "a", "1", "2")});
  ASSERT_EQ(effects.size(), 1U);
  EXPECT_EQ(effects[0].step_verdict(), ComparisonVerdict::kWithinNoise);
  EXPECT_EQ(effects[0].exposed_verdict(), ComparisonVerdict::kWorse);
}

TEST(Changes, TheReportSaysWhatEachDid) {
  const Report lesson = MakeReport(*MakeLessonSnapshot(2, 24, 12));
  const std::string text = PrintReportText(lesson);
  EXPECT_THAT(text, HasSubstr("\n  step 12: prefetch.backward none -> pre"));
  EXPECT_THAT(text, HasSubstr("\n    10 steps before, 12 after: step "));
  EXPECT_THAT(text, HasSubstr("exposed communication emulated "));
  const nlohmann::json change = nlohmann::json::parse(PrintReportJson(lesson))["changes"].at(0);
  EXPECT_EQ(change["steps_before"], 10);
  EXPECT_EQ(change["steps_after"], 12);
  EXPECT_EQ(change["steps_each"], 10);
  EXPECT_EQ(change["step_verdict"], "better");
  EXPECT_LT(change["step_difference"]["high_ns"], 0);
  EXPECT_THAT(
      PrintReportText(MakeReport(*MakeLessonSnapshot(2, 13, 12))),
      HasSubstr("too few steps beside it to tell a difference from noise: 10 steps before, 1 "
                "after, 3 needed on each side"));
  EXPECT_THAT(PrintReportText(MakeReport(*MakeLessonSnapshot(2, 13, 99))),
              Not(HasSubstr("Changes")));
}

}  // namespace
}  // namespace shardscope::analysis
