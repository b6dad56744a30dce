// The shell's pure parts: views, the summary of a change, settings, the trainer's command line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/lesson/lesson_snapshot.h"
#include "trace/analysis/snapshot_test_util.h"
#include "ui/shell/key_input.h"
#include "ui/shell/run/report_worker.h"
#include "ui/shell/run/trainer_process.h"
#include "ui/shell/settings.h"
#include "ui/shell/view_controller.h"

namespace shardscope::shell {
namespace {

constexpr int32_t kChange = 12;

query::SnapshotPtr Lesson() { return analysis::MakeLessonSnapshot(2, 24, kChange); }

const query::Step& StepOf(const query::Snapshot& snapshot, int32_t number) {
  for (const query::Step& step : snapshot.ranks.front().steps) {
    if (step.step == number) return step;
  }
  ADD_FAILURE() << "no step " << number;
  return snapshot.ranks.front().steps.back();
}

TEST(InitialView, IsAroundTheNewestChange) {
  const auto lesson = Lesson();
  const ui::View view = InitialView(*lesson);
  const query::Step& changed = StepOf(*lesson, kChange);
  const query::Step& before = StepOf(*lesson, kChange - 1);
  EXPECT_GE(view.start_ns, before.start_ns);
  EXPECT_LE(view.start_ns, before.start_ns + (before.end_ns - before.start_ns) / 2);
  EXPECT_GE(view.end_ns, changed.end_ns);
  EXPECT_LT(view.end_ns, StepOf(*lesson, kChange + 2).start_ns);
}

TEST(InitialView, OfAStepShowsItsNeighbours) {
  const auto lesson = Lesson();
  const ui::View view = InitialView(*lesson, 5);
  EXPECT_LE(view.start_ns, StepOf(*lesson, 4).start_ns);
  EXPECT_GE(view.end_ns, StepOf(*lesson, 6).end_ns);
  EXPECT_LT(view.end_ns, StepOf(*lesson, 8).start_ns);
}

TEST(InitialView, WithoutAChangeIsTheEndOfTheRun) {
  const auto plain = analysis::MakeLessonSnapshot(2, 24, 99);
  const ui::View view = InitialView(*plain);
  EXPECT_GE(view.end_ns, StepOf(*plain, 23).end_ns);
  EXPECT_GT(view.start_ns, StepOf(*plain, 20).end_ns);
}

// Of a run from 0 to `end_ns` whose newest span ends there too.
Extent RunOf(int64_t end_ns) { return {0, end_ns, end_ns}; }

TEST(ViewController, AnimatesRetargetsAndUndoesOneGesture) {
  ViewController views;
  views.Reset({0, 1'000'000, false});
  views.Set({100'000, 900'000}, 10.0);
  views.Advance(RunOf(1'000'000), 10.05);
  EXPECT_TRUE(views.animating());
  const int64_t halfway = views.view().start_ns;
  EXPECT_GT(halfway, 0);
  EXPECT_LT(halfway, 100'000);
  views.Set({300'000, 700'000}, 10.06);  // retargets from where it is
  views.Advance(RunOf(1'000'000), 10.06);
  EXPECT_EQ(views.view().start_ns, halfway);
  views.Advance(RunOf(1'000'000), 10.3);
  EXPECT_EQ(views.view().start_ns, 300'000);
  EXPECT_FALSE(views.animating());
  views.Undo(11);  // both changes were one gesture
  views.Advance(RunOf(1'000'000), 12);
  EXPECT_EQ(views.view().start_ns, 0);
  EXPECT_EQ(views.view().end_ns, 1'000'000);
}

TEST(ViewController, GoesBackAndForwardThroughViews) {
  ViewController views;
  views.Reset({0, 1'000'000, false});
  views.Redo(5);  // nothing was undone
  const std::vector<int64_t> starts = {100'000, 200'000, 300'000};
  double now = 10;
  for (const int64_t start_ns : starts) views.Set({start_ns, 900'000, false}, now += 1);
  const auto start_after = [&](auto go) {
    (views.*go)(now += 1);
    views.Advance(RunOf(1'000'000), now += 1);
    return views.view().start_ns;
  };
  EXPECT_EQ(start_after(&ViewController::Undo), 200'000);
  EXPECT_EQ(start_after(&ViewController::Undo), 100'000);
  EXPECT_EQ(start_after(&ViewController::Redo), 200'000);
  EXPECT_EQ(start_after(&ViewController::Redo), 300'000);
  EXPECT_EQ(start_after(&ViewController::Redo), 300'000);
  EXPECT_EQ(start_after(&ViewController::Undo), 200'000);
  views.Set({500'000, 900'000, false}, now += 1);  // nothing leads forward from here
  EXPECT_EQ(start_after(&ViewController::Redo), 500'000);
  EXPECT_EQ(start_after(&ViewController::Undo), 200'000);
}

TEST(ViewController, FollowsTheEndUntilTheUserPans) {
  ViewController views;
  views.Reset({0, 1'000'000, true});
  views.Advance(RunOf(5'000'000), 1);
  EXPECT_GE(views.view().end_ns, 5'000'000);
  EXPECT_EQ(views.view().end_ns - views.view().start_ns, 1'000'000);
  views.Set({0, 1'000'000, false}, 2);
  views.Advance(RunOf(9'000'000), 3);
  EXPECT_EQ(views.view().end_ns, 1'000'000);
  views.SetFollow(true, 4);
  views.Advance(RunOf(9'000'000), 5);
  EXPECT_GE(views.view().end_ns, 9'000'000);
}

TEST(ViewController, FollowingIsUndone) {
  ViewController views;
  views.Reset({0, 1'000'000, false});
  views.Advance(RunOf(9'000'000), 1);
  EXPECT_FALSE(views.has_history());
  views.SetFollow(true, 2);
  views.SetFollow(true, 3);  // as before
  views.Advance(RunOf(9'000'000), 4);
  EXPECT_GE(views.view().end_ns, 9'000'000);
  views.Undo(5);
  views.Advance(RunOf(9'500'000), 6);
  EXPECT_EQ(views.view().start_ns, 0);
  EXPECT_FALSE(views.view().follow);
  EXPECT_FALSE(views.has_history());
}

// Where a link into it leads is clamped to the run that it is of, once that is known.
TEST(ViewController, OfAnotherRunIsNotHeldInTheOneBefore) {
  ViewController views;
  views.Reset({0, 1'000'000, false});
  views.Advance(RunOf(1'000'000), 1);
  views.Reset({50'000'000, 60'000'000, false});
  views.Set({52'000'000, 53'000'000, false}, 2);
  EXPECT_EQ(views.goal().start_ns, 52'000'000);
  views.Advance({50'000'000, 60'000'000, 60'000'000}, 3);
  EXPECT_EQ(views.view().start_ns, 52'000'000);
  EXPECT_EQ(views.view().end_ns, 53'000'000);
}

// A run that was paused for a minute and then stopped has its last marks a minute after its last
// span.
TEST(ViewController, FollowsTheNewestSpanNotTheMarksBehindIt) {
  ViewController views;
  views.Reset({0, 1'000'000, true});
  const Extent stopped{0, 60'000'000, 5'000'000};
  views.Advance(RunOf(5'000'000), 1);
  views.Advance(stopped, 2);
  EXPECT_LT(views.view().start_ns, stopped.newest_ns);
  EXPECT_GE(views.view().end_ns, stopped.newest_ns);
  views.Set({59'000'000, 60'000'000}, 3);  // what stands there can be looked at
  views.Advance(stopped, 4);
  EXPECT_EQ(views.view().end_ns, 60'000'000);
  views.SetFollow(true, 5);
  views.Advance(stopped, 6);
  EXPECT_LT(views.view().start_ns, stopped.newest_ns);
}

TEST(ViewController, NeverLeavesWhatThereIs) {
  ViewController views;
  const Extent run{1'000'000, 9'000'000, 9'000'000};
  const auto some_is_seen = [&](const Extent& extent) {
    return views.view().end_ns > extent.start_ns && views.view().start_ns < extent.end_ns &&
           views.view().end_ns > views.view().start_ns;
  };
  views.Reset({2'000'000, 3'000'000, false});
  views.Advance(run, 1);
  views.Set({50'000'000, 51'000'000, false}, 2);  // a pan far beyond
  EXPECT_TRUE(some_is_seen(run));
  EXPECT_EQ(views.view().end_ns - views.view().start_ns, 1'000'000);  // moved, not zoomed
  views.Set({-90'000'000, 90'000'000, false}, 3);                     // a zoom far out
  EXPECT_TRUE(some_is_seen(run));
  EXPECT_LE(views.view().end_ns - views.view().start_ns, 10'000'000);
  views.Set({8'500'000, 8'600'000, false}, 4);
  views.Advance(run, 5);
  // The rows are replaced by fewer: what is shown and what an undo returns to come along.
  const Extent fewer{1'000'000, 2'000'000, 2'000'000};
  views.Advance(fewer, 6);
  EXPECT_TRUE(some_is_seen(fewer));
  views.Undo(7);
  views.Advance(fewer, 8);
  EXPECT_TRUE(some_is_seen(fewer));
}

TEST(ViewController, HoldsStillUnderTheMouseAndFollowsAgainWhenItLeaves) {
  ViewController views;
  views.Reset({0, 1'000'000, true});
  views.Advance(RunOf(5'000'000), 1);
  const ui::View before = views.view();
  for (int frame = 0; frame < 5; ++frame) {
    views.Hold();
    views.Advance(RunOf(6'000'000 + frame * 100'000), 2 + frame);
    EXPECT_EQ(views.view().start_ns, before.start_ns);
    EXPECT_TRUE(views.view().held);
    EXPECT_TRUE(views.view().follow);
  }
  views.Advance(RunOf(7'000'000), 10);
  EXPECT_FALSE(views.view().held);
  EXPECT_TRUE(views.animating());
  views.Advance(RunOf(7'000'000), 11);
  EXPECT_GE(views.view().end_ns, 7'000'000);
  EXPECT_TRUE(views.view().follow);
}

TEST(KeyInput, ZoomKeepsTheTimeUnderTheCursor) {
  const ui::View view{1000, 2000, false};
  const ui::SetView in = Zoomed(view, 0.5, 1250);
  EXPECT_EQ(in.start_ns, 1125);
  EXPECT_EQ(in.end_ns, 1625);
  const ui::SetView right = Panned(view, 0.1);
  EXPECT_EQ(right.start_ns, 1100);
  EXPECT_EQ(right.end_ns, 2100);
}

TEST(ChangeSummary, ComparesTheStepsOnBothSides) {
  const auto lesson = Lesson();
  const FindingsPtr findings = FindingsMaker().Make({.snapshot = lesson});
  const ui::ChangeSummary& change = findings->change;
  ASSERT_TRUE(change.valid);
  EXPECT_TRUE(change.complete);
  EXPECT_EQ(change.step, kChange);
  EXPECT_EQ(change.before.num_steps, kChange - analysis::kWarmUpSteps);
  EXPECT_EQ(change.after.num_steps, 24 - kChange);
  EXPECT_EQ(change.step_verdict, analysis::ComparisonVerdict::kBetter);
  EXPECT_EQ(change.exposed_verdict, analysis::ComparisonVerdict::kBetter);
  EXPECT_LT(change.after.exposed_ns.p50, change.before.exposed_ns.p50);
  EXPECT_GT(change.peak_before_bytes, 0);
  // The first rank to reach the step sets the time.
  EXPECT_LE(change.time_ns, StepOf(*lesson, kChange).start_ns);
  EXPECT_GT(change.time_ns, StepOf(*lesson, kChange - 1).start_ns);
}

// From step 6 on a step has half of the tokens and ends earlier, but not in half of the time.
TEST(ChangeSummary, OfStepsOfFewerTokensTheTimeOfATokenIsJudged) {
  for (const int64_t tokens_after : {50, 100}) {
    analysis::TestSnapshot test(2);
    const query::PlanOpId forward = test.Plan("forward", "forward", "", "block0.mlp");
    constexpr int64_t kMs = 1'000'000;
    int64_t start_ns = 0;
    for (int32_t step = 0; step < 12; ++step) {
      const int64_t end_ns = start_ns + (step < 6 ? 40 : 25) * kMs;
      for (int32_t rank = 0; rank < 2; ++rank) {
        test.Run(rank, step, forward, start_ns, end_ns - kMs);
        test.Step(rank, step, start_ns, end_ns).tokens = step < 6 ? 100 : tokens_after;
      }
      start_ns = end_ns;
    }
    test.snapshot().markers = {{240 * kMs, 6, "change", "strategy", "full", "pipeline"}};
    const FindingsPtr findings = FindingsMaker().Make({.snapshot = test.Build()});
    const ui::ChangeSummary& change = findings->change;
    ASSERT_TRUE(change.complete);
    EXPECT_EQ(change.step_verdict, analysis::ComparisonVerdict::kBetter);
    EXPECT_EQ(change.token_verdict.has_value(), tokens_after != 100);
    if (tokens_after == 100) continue;
    EXPECT_LT(change.after.tokens_per_second, change.before.tokens_per_second);
    EXPECT_EQ(*change.token_verdict, analysis::ComparisonVerdict::kWorse);
  }
}

TEST(ChangeSummary, WithoutAChangeIsNotValid) {
  EXPECT_FALSE(
      FindingsMaker().Make({.snapshot = analysis::MakeLessonSnapshot(2, 8, 99)})->change.valid);
}

TEST(TrainerProcess, CommandLineHasPresetAndSettings) {
  const ui::StartRun start{"runs/x", {{"a", "1"}, {"b", "2"}}, "p.toml"};
  EXPECT_THAT(TrainerArguments("/bin/t", start),
              testing::ElementsAre("/bin/t", "--out", "runs/x", "--config", "p.toml", "--set",
                                   "a=1", "b=2"));
}

TEST(TrainerProcess, RefusesAFolderWithARunAndAProgramThatIsNotThere) {
  const std::string folder = testing::TempDir() + "/shardscope_start_test";
  std::filesystem::remove_all(folder);
  const auto missing = TrainerProcess::Launch("/no/such/program", {folder, {}, {}});
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.message(), testing::HasSubstr("/no/such/program"));
  EXPECT_FALSE(std::filesystem::exists(folder));
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/run.toml") << "\n";
  const auto taken = TrainerProcess::Launch("/bin/true", {folder, {}, {}});
  ASSERT_FALSE(taken.ok());
  EXPECT_THAT(taken.message(), testing::HasSubstr("holds a run already"));
  std::filesystem::remove_all(folder);
}

TEST(TrainerProcess, TheErrorIsWhatItsLineSays) {
  const std::string folder = testing::TempDir() + "/shardscope_start_error_test";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  const std::string program = folder + "/program";
  std::ofstream(program) << "#!/bin/sh\necho one\necho 'error: no room'\necho two\nexit 1\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  auto started = TrainerProcess::Launch(program, {folder + "/run", {}, {}});
  ASSERT_TRUE(started.ok()) << started.message();
  for (int i = 0; i < 3000 && started->Poll() == TrainerProcess::State::kStarting; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(started->Poll(), TrainerProcess::State::kFailed);
  EXPECT_EQ(started->error(), "no room");
  std::filesystem::remove_all(folder);
}

// Of a trainer that says an error and makes nothing, as where memory does not suffice.
TEST(TrainerProcess, OfARefusedStartNothingIsLeft) {
  const std::string root = testing::TempDir() + "/shardscope_refused_start";
  std::filesystem::remove_all(root);
  std::filesystem::create_directories(root);
  const std::string trainer = root + "/trainer";
  for (const bool writes_run : {false, true}) {
    const std::string folder = root + (writes_run ? "/begun" : "/refused");
    std::ofstream(trainer) << "#!/bin/sh\n"
                           << (writes_run ? "touch \"$2/run.toml\"\n" : "")
                           << "echo 'error: out of memory' >&2\n";
    std::filesystem::permissions(trainer, std::filesystem::perms::owner_all);
    auto started = TrainerProcess::Launch(trainer, {folder, {}, {}});
    ASSERT_TRUE(started.ok()) << started.message();
    TrainerProcess::State state = TrainerProcess::State::kStarting;
    for (int i = 0; i < 3000 && state == TrainerProcess::State::kStarting; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      state = started->Poll();
    }
    EXPECT_EQ(state, TrainerProcess::State::kFailed);
    EXPECT_EQ(started->error(), "out of memory");
    EXPECT_EQ(std::filesystem::exists(folder + "/output.txt"), writes_run);
    EXPECT_EQ(std::filesystem::exists(folder), writes_run);
  }
  std::filesystem::remove_all(root);
}

TEST(Settings, BrokenFileGivesTheDefaults) {
  const std::string folder = testing::TempDir() + "/shardscope_broken_settings";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/settings.toml") << "this is = = no toml";
  EXPECT_EQ(LoadSettings(folder).scale, 0);
  Settings settings;
  for (int i = 0; i < 30; ++i) AddRecent("run" + std::to_string(i), &settings);
  AddRecent("run5", &settings);
  EXPECT_EQ(settings.recent.front(), "run5");
  EXPECT_EQ(settings.recent.size(), 20u);
  settings.pictures["run5"] = {{10, 20, 30, 5}, {1, 0, 2}};
  settings.pictures["run1"] = {{1, 1, 1}};  // no longer among the recent ones
  SaveSettings(settings, folder);
  EXPECT_EQ(LoadSettings(folder).recent, settings.recent);
  EXPECT_EQ(LoadSettings(folder).pictures.size(), 1u);
  EXPECT_EQ(LoadSettings(folder).pictures["run5"], settings.pictures["run5"]);
  EXPECT_EQ(LoadSettings(folder).scale, 0);  // not chosen stays not chosen
  EXPECT_TRUE(LoadSettings(folder).legend);
  settings.legend = false;
  settings.scale = 1.5f;
  SaveSettings(settings, folder);
  EXPECT_EQ(LoadSettings(folder).scale, 1.5f);
  EXPECT_FALSE(LoadSettings(folder).legend);
  std::filesystem::remove_all(folder);
}

TEST(Settings, TheLastStatementsAreKept) {
  const std::string folder = testing::TempDir() + "/shardscope_statements";
  std::vector<std::string> history;
  for (int i = 0; i < 30; ++i) history.push_back("SELECT " + std::to_string(i) + "\nFROM \"é\"");
  history.push_back(std::string(100'000, ' '));  // would leave no room for the other settings
  Settings settings;
  KeepStatements(history, &settings);
  SaveSettings(settings, folder);
  const std::vector<std::string> kept = LoadSettings(folder).statements;
  EXPECT_EQ(kept, std::vector<std::string>(history.begin() + 10, history.begin() + 30));
  std::filesystem::remove_all(folder);
}

TEST(Settings, APictureThatIsNoneHarmsNothing) {
  const std::string folder = testing::TempDir() + "/shardscope_odd_pictures";
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/settings.toml")
      << "recent = ['a']\npictures = { a = [[1, -5], 'x', [nan, 2, 3]], b = 7 }\n";
  const Settings settings = LoadSettings(folder);
  EXPECT_EQ(settings.recent, std::vector<std::string>{"a"});
  const std::vector<ui::PictureBar> expected = {{1, 0, 0}, {0, 2, 3}};
  EXPECT_EQ(settings.pictures.at("a"), expected);
  EXPECT_TRUE(settings.pictures.at("b").empty());
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::shell
