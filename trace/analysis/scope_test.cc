#include "trace/analysis/scope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/report/report.h"
#include "trace/analysis/snapshot_test_util.h"

namespace shardscope::analysis {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr Scope kSinceChange{.kind = ScopeKind::kSinceChange};

Scope ScopeOfSteps(int32_t first, int32_t last) {
  return {.kind = ScopeKind::kSteps, .first = first, .last = last};
}

// One rank; steps of 10 ns.
TestSnapshot RunWithSteps(const std::vector<int32_t>& steps) {
  TestSnapshot test(1);
  int64_t start_ns = 0;
  for (const int32_t step : steps) {
    test.Step(0, step, start_ns, start_ns + 10);
    start_ns += 10;
  }
  return test;
}

void TurnKnob(TestSnapshot* test, int32_t step) {
  test->snapshot().markers.push_back(
      {.step = step, .kind = "change", .key = "x", .old_value = "1", .new_value = "2"});
}

ScopedSteps ResolveIn(TestSnapshot* test, const Scope& scope) {
  const query::SnapshotPtr snapshot = test->Build();
  return Resolve(scope, Breakdowns(*snapshot), snapshot->markers);
}

std::pair<int32_t, int32_t> Range(const ScopedSteps& steps) { return {steps.first, steps.last}; }

TEST(Scope, OfALiveRunBeginsAtTheLastChangeOfAKnob) {
  EXPECT_EQ(DefaultScope(query::TraceState::kLive).kind, ScopeKind::kSinceChange);
  EXPECT_EQ(DefaultScope(query::TraceState::kFinished).kind, ScopeKind::kWholeRun);
  EXPECT_EQ(DefaultScope(query::TraceState::kCut).kind, ScopeKind::kWholeRun);
  TestSnapshot test = RunWithSteps({0, 1, 2, 3, 4, 5});
  EXPECT_EQ(Range(ResolveIn(&test, kSinceChange)), std::pair(0, 5));
  EXPECT_TRUE(ResolveIn(&test, kSinceChange).whole_run());
  TurnKnob(&test, 4);
  TurnKnob(&test, 3);
  const ScopedSteps since = ResolveIn(&test, kSinceChange);
  EXPECT_EQ(Range(since), std::pair(4, 5));
  EXPECT_EQ(since.change_step, 4);
  EXPECT_FALSE(since.whole_run());
}

TEST(Scope, IsEmptyUntilTheFirstStepAfterTheChangeIsFinished) {
  TestSnapshot test = RunWithSteps({0, 1, 2});
  TurnKnob(&test, 3);
  const ScopedSteps since = ResolveIn(&test, kSinceChange);
  EXPECT_TRUE(since.empty());
  EXPECT_EQ(ScopeWords(since), "since the change at step 3");
  const Report report = MakeReport(*test.Build(), {.scope = kSinceChange});
  EXPECT_EQ(report.figures.summary.num_steps, 0);
  EXPECT_EQ(report.figures.summary.step_ns.p50, 0);
  EXPECT_TRUE(report.figures.memory.empty());
  EXPECT_THAT(PrintReportText(report),
              HasSubstr("\nNo step is finished yet since the change at step 3.\n"));
}

TEST(Scope, CountsTheLastStepsThatThereAre) {
  TestSnapshot test = RunWithSteps({0, 1, 5, 6, 20, 21});
  EXPECT_EQ(Range(ResolveIn(&test, {.kind = ScopeKind::kLastSteps, .count = 3})), std::pair(6, 21));
  EXPECT_EQ(Range(ResolveIn(&test, {.kind = ScopeKind::kLastSteps})), std::pair(0, 21));
}

TEST(Scope, OfARangeHoldsTheStepsThatThereAre) {
  TestSnapshot test = RunWithSteps({0, 1, 5, 6, 20});
  EXPECT_EQ(Range(ResolveIn(&test, ScopeOfSteps(2, 19))), std::pair(5, 6));
  EXPECT_TRUE(ResolveIn(&test, ScopeOfSteps(7, 19)).empty());
  EXPECT_TRUE(ResolveIn(&test, ScopeOfSteps(0, -1)).empty());
  const std::vector<StepBreakdown> steps = Breakdowns(*test.Build());
  EXPECT_TRUE(CheckHasSteps(ScopeOfSteps(2, 19), steps).ok());
  EXPECT_EQ(CheckHasSteps(ScopeOfSteps(7, 19), steps).message(),
            "no steps 7 to 19: this trace has the steps 0 to 20, with gaps");
  EXPECT_EQ(CheckHasSteps(ScopeOfSteps(3, 3), {}).message(),
            "no step 3: this trace has no finished step yet");
}

TEST(Scope, LeavesWarmUpOutOfTimesWhereThereIsMore) {
  TestSnapshot test = RunWithSteps({0, 1, 2, 3});
  EXPECT_EQ(ResolveIn(&test, {}).first_timed, 2);
  EXPECT_EQ(ResolveIn(&test, ScopeOfSteps(0, 1)).first_timed, 0);
  EXPECT_EQ(ResolveIn(&test, ScopeOfSteps(1, 3)).first_timed, 2);
  EXPECT_EQ(ResolveIn(&test, ScopeOfSteps(3, 3)).first_timed, 3);
}

// The steps that such a run did first, whichever of its steps are here.
TEST(Scope, LeavesTheWarmUpOfARunThatWentOnOut) {
  TestSnapshot test = RunWithSteps({28, 29, 30, 31});
  EXPECT_EQ(ResolveIn(&test, {}).first_timed, 28);  // the steps before were dropped
  test.snapshot().meta["resumed_step"] = "28";
  EXPECT_EQ(ResolveIn(&test, {}).first_timed, 30);
  EXPECT_EQ(ResolveIn(&test, ScopeOfSteps(28, 29)).first_timed, 28);
  EXPECT_EQ(MakeReport(*test.Build()).figures.summary.num_steps, 2);
  EXPECT_THAT(PrintReportText(MakeReport(*test.Build(), {.scope = ScopeOfSteps(28, 29)})),
              HasSubstr("all of it warm-up"));
  test.snapshot().meta["resumed_step"] = "20";
  EXPECT_EQ(ResolveIn(&test, {}).first_timed, 28);
  for (const char* damaged : {"9223372036854775807", "-9223372036854775808"}) {
    test.snapshot().meta["resumed_step"] = damaged;
    EXPECT_EQ(ResolveIn(&test, {}).first_timed, 28) << damaged;
  }
}

TEST(Scope, IsWrittenAsRecordStepsAre) {
  EXPECT_EQ(ParseSteps("5:9").value(), ScopeOfSteps(5, 8));
  for (const char* wrong :
       {"", "5", "5:", ":9", "5:5", "9:5", "-1:4", "a:b", "1:2:3", "0:99999999999"}) {
    EXPECT_FALSE(ParseSteps(wrong).ok()) << wrong;
  }
}

TEST(Scope, HasAWordEach) {
  EXPECT_EQ(ParseScope("since-change")->kind, ScopeKind::kSinceChange);
  EXPECT_EQ(ParseScope("in-view")->kind, ScopeKind::kInView);
  EXPECT_EQ(ParseScope("5:9").value(), ScopeOfSteps(5, 8));
  EXPECT_THAT(ParseScope("9:5").message(), HasSubstr("a < b"));
  EXPECT_THAT(ParseScope("all").message(), HasSubstr("whole-run"));
}

TEST(Scope, WithoutAWindowNothingIsInViewOrSelected) {
  EXPECT_EQ(ParseScopeOption("last-steps")->kind, ScopeKind::kLastSteps);
  EXPECT_EQ(ParseScopeOption("5:9").value(), ScopeOfSteps(5, 8));
  EXPECT_THAT(ParseScopeOption("9:5").message(), HasSubstr("--scope 9:5: give a:b"));
  for (const std::string word : {"in-view", "selection", "all"}) {
    EXPECT_EQ(ParseScopeOption(word).message(),
              "--scope " + word + ": give since-change, last-steps, whole-run, or steps as a:b");
  }
}

// The lesson's steps 12 and on have prefetch: their figures have nothing of the steps before.
TEST(Figures, AreOfTheStepsOfTheirScopeAlone) {
  const query::SnapshotPtr lesson = MakeLessonSnapshot(2, 24, 12);
  const Report whole = MakeReport(*lesson);
  const Report since = MakeReport(*lesson, {.scope = kSinceChange});
  EXPECT_EQ(Range(since.figures.scope), std::pair(12, 23));
  EXPECT_EQ(since.figures.summary.num_steps, 12);
  EXPECT_LT(since.figures.summary.exposed_ns.p50, whole.figures.summary.exposed_ns.p50);
  for (const CollectiveRun& run : since.figures.slowest_collectives) EXPECT_GE(run.step, 12);
  const int64_t num_rank_steps = 2 * 12;
  for (const StallGroup& group : since.figures.stalls) {
    EXPECT_GE(group.worst.step, 12);
    EXPECT_DOUBLE_EQ(group.ns_per_step,
                     static_cast<double>(group.total_ns) / static_cast<double>(num_rank_steps));
  }
}

// Of a lesson so short that no list of stalls is cut.
TEST(Figures, OfScopesThatTileTheRunLoseAndRepeatNoStall) {
  const query::SnapshotPtr lesson = MakeLessonSnapshot(2, 12, 6);
  const auto stalled_ns = [&](const Scope& scope) {
    int64_t total = 0;
    const Report report = MakeReport(*lesson, {.scope = scope});
    EXPECT_LT(report.figures.stalls.size(), 20u);
    for (const StallGroup& group : report.figures.stalls) total += group.total_ns;
    return total;
  };
  EXPECT_EQ(stalled_ns(ScopeOfSteps(2, 5)) + stalled_ns(kSinceChange),
            stalled_ns(ScopeOfSteps(2, 11)));
}

TEST(Figures, PeakOfMemoryIsThatOfTheStepsWithWhatWasLiveBefore) {
  TestSnapshot test = RunWithSteps({0, 1, 2, 3});  // 10 ns each
  const auto other = query::MemoryCategory::kOther;
  test.Memory(0, other, 0, 100);
  test.Memory(0, other, 5, 400);
  test.Memory(0, other, 8, -400);
  test.Memory(0, other, 25, 50);
  test.Memory(0, other, 26, -50);
  const query::SnapshotPtr snapshot = test.Build();
  const auto peak = [&](const Scope& scope) {
    return MakeReport(*snapshot, {.scope = scope}).figures.memory.front().peak_bytes;
  };
  EXPECT_EQ(peak({}), 500);
  EXPECT_EQ(peak(ScopeOfSteps(0, 0)), 500);
  EXPECT_EQ(peak(ScopeOfSteps(1, 1)), 100);
  EXPECT_EQ(peak(ScopeOfSteps(2, 3)), 150);
  EXPECT_EQ(peak(ScopeOfSteps(3, 3)), 100);
  EXPECT_EQ(MakeReport(*snapshot, {.scope = ScopeOfSteps(3, 3)}).memory.front().peak_bytes, 500);
}

TEST(Figures, TextAndJsonNameTheScopeAndListItsStepsAndChanges) {
  const query::SnapshotPtr lesson = MakeLessonSnapshot(2, 24, 12);
  const Report part = MakeReport(*lesson, {.scope = ScopeOfSteps(5, 8)});
  const std::string text = PrintReportText(part);
  EXPECT_THAT(text, HasSubstr("\nOver 4 steps of 2 ranks: steps 5 to 8\n"));
  EXPECT_THAT(text, Not(HasSubstr("\nChanges")));
  EXPECT_THAT(text, Not(HasSubstr("\n     9     0 ")));
  const nlohmann::json json = nlohmann::json::parse(PrintReportJson(part));
  EXPECT_EQ(json["scope"]["kind"], "steps");
  EXPECT_EQ(json["scope"]["first_step"], 5);
  EXPECT_EQ(json["scope"]["last_step"], 8);
  EXPECT_EQ(json["steps"].size(), 8u);
  EXPECT_EQ(json["changes"].size(), 0u);
  const std::string since = PrintReportText(MakeReport(*lesson, {.scope = kSinceChange}));
  EXPECT_THAT(since, HasSubstr(": since the change at step 12, steps 12 to 23\n"));
  EXPECT_THAT(since, HasSubstr("\n  step 12: "));
  EXPECT_THAT(PrintReportText(MakeReport(*lesson)),
              HasSubstr(": the whole run, steps 0 to 23, times without warm-up (before step 2)\n"));
}

}  // namespace
}  // namespace shardscope::analysis
