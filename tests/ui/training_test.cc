// The whole way: start a training from the form, turn a knob while it trains, see the change
// arrive, close the app, attach again, stop.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "engine/plan/text.h"
#include "tests/places.h"
#include "tests/ui/harness.h"
#include "ui/values.h"

namespace shardscope::ui_test {
namespace {

constexpr double kPatienceSeconds = 90;

// That trains until it is told to stop. With `bandwidth` on an emulated link.
ui::StartRun SmallRun(const std::string& folder, const std::string& bandwidth = "") {
  ui::StartRun start;
  start.folder = folder;
  start.values = {{"run.ranks", "2"},  {"train.steps", "100000"}, {"model.layers", "2"},
                  {"model.dim", "32"}, {"model.seq", "32"},       {"train.batch", "1"}};
  if (!bandwidth.empty()) {
    start.values["transport"] = "emulated";
    start.values["link.bandwidth"] = bandwidth;
  }
  return start;
}

TEST(Training, IsStartedSteeredLeftAndFoundAgain) {
  const std::string folder = testing::TempDir() + "/shardscope_training_test";
  std::filesystem::remove_all(folder);
  {
    Harness harness({}, BinDir());
    harness.shell().Post(SmallRun(folder, "100MB/s"));
    const auto trains = [&] {
      return ui::CanSteer(harness.context()) && harness.context().report != nullptr &&
             !harness.context().report->steps.empty();
    };
    ASSERT_TRUE(harness.Until([&] { return trains() || !harness.context().start_error.empty(); },
                              kPatienceSeconds));
    ASSERT_TRUE(trains()) << harness.context().start_error;
    EXPECT_EQ(harness.log().Find("top_bar", "state")->text, "LIVE");
    EXPECT_EQ(ui::ValueInForce(harness.context(), "prefetch.backward"), "pre");

    EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
      test->SetRef("//###run_control");
      test->ItemClick("prefetch.backward/segments/none");
    }));
    ASSERT_TRUE(harness.Until(
        [&] { return ui::ValueInForce(harness.context(), "prefetch.backward") == "none"; },
        kPatienceSeconds));
    // The change is in the trace, and drawn: card and dashed line.
    ASSERT_TRUE(harness.Until([&] { return harness.context().change.complete; }, kPatienceSeconds));
    EXPECT_EQ(harness.context().change.markers.front().key, "prefetch.backward");
    ASSERT_NE(harness.log().Find("run_control", "change.step"), nullptr);
    EXPECT_TRUE(harness.context().control.error.empty());
    const auto undo = [](ImGuiTestContext* test) { test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_Z); };
    EXPECT_TRUE(harness.Drive(undo));
    EXPECT_THAT(harness.context().notice.text, testing::HasSubstr("none → pre"));
    EXPECT_TRUE(harness.Until(
        [&] { return ui::ValueInForce(harness.context(), "prefetch.backward") == "pre"; },
        kPatienceSeconds));
    EXPECT_TRUE(harness.Drive(undo));  // nothing is left
    EXPECT_TRUE(harness.context().notice.is_error);
    // Advice takes the same turn back, whoever turned.
    EXPECT_FALSE(harness.context().control.undoable);
    harness.shell().Post(ui::SetKnob{"prefetch.backward", "none"});
    harness.shell().Post(ui::FocusPanel{"advice"});
    ASSERT_TRUE(harness.Until([&] { return harness.log().Find("advice", "undo") != nullptr; },
                              kPatienceSeconds));
    EXPECT_THAT(harness.log().Find("advice", "undo")->text, testing::HasSubstr("none → pre"));
    // New steps bring other advice, which can move the button from under the mouse.
    EXPECT_TRUE(harness.Until(
        [&] {
          EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
            if (harness.log().Find("advice", "undo") == nullptr) return;
            test->MouseMoveToPos(PlaceOf(harness, "advice", "undo"));
            test->MouseClick();
          }));
          return !harness.context().control.undoable;
        },
        kPatienceSeconds));
    EXPECT_TRUE(harness.Until(
        [&] { return ui::ValueInForce(harness.context(), "prefetch.backward") == "pre"; },
        kPatienceSeconds));
    EXPECT_EQ(harness.log().Find("advice", "undo"), nullptr);
    // A knob that is asked for by name has the keyboard.
    harness.shell().Post(ui::ShowKey{.key = "prefetch.forward"});
    EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) {
      test->Yield(4);
      test->KeyPress(ImGuiKey_RightArrow);
    }));
    EXPECT_TRUE(harness.Until(
        [&] { return ui::ValueInForce(harness.context(), "prefetch.forward") == "1"; },
        kPatienceSeconds));
  }
  // The app is gone, the training is not.
  Harness again({}, BinDir());
  ASSERT_TRUE(again.shell().Open(folder).ok());
  ASSERT_TRUE(again.Until([&] { return ui::CanSteer(again.context()); }, kPatienceSeconds));
  const int64_t step = again.context().control.status.step;
  EXPECT_TRUE(
      again.Until([&] { return again.context().control.status.step > step; }, kPatienceSeconds));
  EXPECT_TRUE(again.Drive([](ImGuiTestContext* test) {
    test->SetRef("//##top_bar");
    test->ItemClick("stop");
    test->Yield(2);
    // Escape lets it go on.
    test->KeyPress(ImGuiKey_Escape);
  }));
  EXPECT_EQ(again.context().overlay, ui::Overlay::kNone);
  const int64_t asked_at = again.context().control.status.step;
  EXPECT_TRUE(again.Until([&] { return again.context().control.status.step > asked_at; },
                          kPatienceSeconds));
  EXPECT_TRUE(again.Drive([](ImGuiTestContext* test) {
    test->SetRef("//##top_bar");
    test->ItemClick("stop");
    test->Yield(2);
    test->SetRef("//##stop_question");
    test->ItemClick("stop");
  }));
  EXPECT_TRUE(
      again.Until([&] { return again.context().snapshot->state == query::TraceState::kFinished; },
                  kPatienceSeconds));
  std::filesystem::remove_all(folder);
}

// An op is moved in the panel Schedule, the run trains with that, and goes back.
TEST(Training, TakesUpAScheduleInWhichAnOpWasMoved) {
  const std::string folder = testing::TempDir() + "/shardscope_training_schedule_test";
  std::filesystem::remove_all(folder);
  Harness harness({}, BinDir());
  harness.shell().Post(SmallRun(folder, "100MB/s"));
  const auto drawn = [&](const char* id) { return harness.log().Find("schedule", id); };
  const auto until = [&](const auto& condition) {
    return harness.Until(condition, kPatienceSeconds);
  };
  ASSERT_TRUE(until([&] {
    return ui::CanSteer(harness.context()) && harness.context().report != nullptr &&
           !harness.context().report->steps.empty();
  }));
  EXPECT_TRUE(harness.Drive([](ImGuiTestContext* test) { test->KeyPress(ImGuiKey_L); }));
  ASSERT_TRUE(until([&] { return drawn("op:6") != nullptr; }));
  const auto click = [&](const char* id) {
    EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
      test->MouseMoveToPos(PlaceOf(harness, "schedule", id));
      test->MouseClick();
    }));
  };
  EXPECT_EQ(drawn("run"), nullptr);
  click("op:6");
  ASSERT_TRUE(until([&] { return drawn("later") != nullptr; }));
  click("later");
  ASSERT_TRUE(until([&] { return drawn("run") != nullptr || drawn("refused") != nullptr; }));
  ASSERT_NE(drawn("run"), nullptr) << drawn("refused")->text;
  plan::Schedule wanted = harness.context().schedule.sheet->schedule;
  wanted.name += " edited";
  click("run");
  ASSERT_TRUE(until([&] { return !ui::ValueInForce(harness.context(), "schedule.file").empty(); }));
  // The trace has it, and the panel shows the run's again, with what is in force.
  const std::string text = plan::PrintSchedule(wanted);
  const auto is_in_trace = [&] {
    const auto& schedules = harness.context().snapshot->schedules;
    return std::ranges::any_of(schedules,
                               [&](const auto& entry) { return entry.second.text == text; });
  };
  ASSERT_TRUE(until(is_in_trace));
  ASSERT_TRUE(until([&] { return drawn("in_force") != nullptr && drawn("run") == nullptr; }));
  EXPECT_EQ(harness.context().control.error, "");
  click("back");
  ASSERT_TRUE(until([&] { return ui::ValueInForce(harness.context(), "schedule.file").empty(); }));
  ASSERT_TRUE(until([&] { return drawn("in_force") == nullptr; }));
  harness.shell().Post(ui::DoAction{config::Action::kStop});
  EXPECT_TRUE(
      until([&] { return harness.context().snapshot->state == query::TraceState::kFinished; }));
  std::filesystem::remove_all(folder);
}

// As from its card of the start page.
TEST(Training, IsStartedByEveryPreset) {
  std::vector<std::string> presets;
  for (const auto& file : std::filesystem::directory_iterator(SourceDir() + "/assets/presets")) {
    presets.push_back(file.path().string());
  }
  ASSERT_GE(presets.size(), 8u);
  const std::filesystem::path folders = testing::TempDir() + "/shardscope_training_preset_test";
  std::filesystem::remove_all(folders);
  for (const std::string& preset : presets) {
    // One for each: a trainer may write to its own once more as it ends.
    const std::string folder = folders / std::filesystem::path(preset).stem();
    Harness harness({}, BinDir());
    ui::StartRun start;
    start.folder = folder;
    start.preset_file = preset;
    start.values = {{"train.steps", "3"}, {"model.seq", "32"}, {"train.batch", "2"}};
    harness.shell().Post(start);
    ASSERT_TRUE(harness.Until(
        [&] {
          const bool is_over = harness.context().snapshot != nullptr &&
                               harness.context().snapshot->state == query::TraceState::kFinished;
          return is_over || !harness.context().start_error.empty();
        },
        kPatienceSeconds))
        << preset;
    EXPECT_EQ(harness.context().start_error, "") << preset;
    ASSERT_NE(harness.context().snapshot, nullptr) << preset;
    EXPECT_EQ(harness.context().snapshot->ranks.front().steps.size(), 3u) << preset;
  }
  std::error_code ignored;
  std::filesystem::remove_all(folders, ignored);
}

// What comes without rows is looked for between frames, and only then: nothing else draws one.
TEST(Training, ThatIsPausedIsShownSoWithoutFurtherInput) {
  const std::string folder = testing::TempDir() + "/shardscope_training_paused_test";
  std::filesystem::remove_all(folder);
  Harness harness({}, BinDir());
  harness.shell().Post(SmallRun(folder, "1MB/s"));
  ASSERT_TRUE(harness.Until([&] { return ui::CanSteer(harness.context()); }, kPatienceSeconds));
  harness.shell().Post(ui::DoAction{config::Action::kPause});
  harness.Frames(2);
  // A step takes longer than these frames: the pause is still to come.
  const auto is_paused = [&] { return ui::IsPaused(harness.context()); };
  ASSERT_FALSE(is_paused());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!is_paused() && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (harness.shell().Poll()) harness.Frames(1);
  }
  EXPECT_TRUE(is_paused());
  EXPECT_EQ(kill(std::stoi(harness.context().snapshot->meta.at("pid")), SIGKILL), 0);
  std::filesystem::remove_all(folder);
}

// The app outlives its training, keeps what was recorded, and says what happened.
TEST(Training, ThatIsKilledIsCalledCut) {
  const std::string folder = testing::TempDir() + "/shardscope_training_killed_test";
  std::filesystem::remove_all(folder);
  Harness harness({}, BinDir());
  harness.shell().Post(SmallRun(folder));
  ASSERT_TRUE(harness.Until(
      [&] {
        return ui::CanSteer(harness.context()) && harness.context().report != nullptr &&
               !harness.context().report->steps.empty();
      },
      kPatienceSeconds));
  const size_t steps = harness.context().report->steps.size();
  ASSERT_EQ(kill(std::stoi(harness.context().snapshot->meta.at("pid")), SIGKILL), 0);
  ASSERT_TRUE(
      harness.Until([&] { return harness.context().snapshot->state == query::TraceState::kCut; },
                    kPatienceSeconds));
  ASSERT_TRUE(harness.Until(
      [&] {
        const auto* state = harness.log().Find("top_bar", "state");
        return state != nullptr && state->text == "CUT";
      },
      kPatienceSeconds));
  EXPECT_FALSE(ui::CanSteer(harness.context()));
  EXPECT_GE(harness.context().report->steps.size(), steps);
  std::filesystem::remove_all(folder);
}

TEST(Training, ThatCannotStartSaysWhy) {
  const std::string folder = testing::TempDir() + "/shardscope_training_error_test";
  std::filesystem::remove_all(folder);
  Harness harness({}, BinDir());
  // In the form, and with its button.
  EXPECT_TRUE(harness.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_N);
    test->Yield(5);
    test->SetRef("//###runs");
    test->ItemInputValue("**/##folder", folder.c_str());
    test->ItemInputValue("**/##search", "data.path");
    test->ItemInputValue("**/data.path/##value", "/no/such/text");
    test->ItemClick("**/start");
  }));
  ASSERT_TRUE(
      harness.Until([&] { return !harness.context().start_error.empty(); }, kPatienceSeconds));
  EXPECT_THAT(harness.context().start_error, testing::HasSubstr("/no/such/text"));
  // Said in the form, which is in front.
  ASSERT_TRUE(harness.Until([&] { return harness.log().Find("runs", "start_error") != nullptr; },
                            kPatienceSeconds));
  EXPECT_EQ(harness.log().Find("runs", "start_error")->text, harness.context().start_error);
  EXPECT_EQ(harness.context().error, "");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace shardscope::ui_test
