// The time lens, driven as a teacher would: play a step, stop, step through its ops, drag, close.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "trace/analysis/moment/moment.h"
#include "trace/analysis/moment/moment_words.h"

namespace shardscope::ui_test {
namespace {

using testing::HasSubstr;

class LensTest : public testing::Test {
 protected:
  LensTest() : snapshot_(analysis::MakeLessonSnapshot(2, 12, 99)) {
    harness_.shell().OpenSnapshot(snapshot_);
    harness_.Frames(8);
  }

  const ui::LensState& lens() const { return harness_.context().lens; }
  const ui::DrawnItem* Drawn(const char* panel, const std::string& id) const {
    return harness_.log().Find(panel, id);
  }

  // Opens the lens and lets the worker end.
  void Open(ImGuiTestContext* test, ImGuiKeyChord chord) const {
    test->KeyPress(chord);
    for (int i = 0; i < 4000 && !lens().moment; ++i) test->Yield();
    ASSERT_TRUE(lens().moment.has_value());
  }
  // The step in the middle of the run, stopped.
  void OpenStopped(ImGuiTestContext* test) {
    harness_.shell().Post(ui::ShowStep{5});
    test->SleepNoSkip(0.5F, 1.0F / 60);
    Open(test, ImGuiKey_P);
    if (lens().plays) test->KeyPress(ImGuiKey_Space);
    test->Yield(2);
    ASSERT_FALSE(lens().plays);
  }

  query::SnapshotPtr snapshot_;
  Harness harness_;
};

TEST_F(LensTest, PPlaysTheStepInFocusWithSpaceAsItsPause) {
  EXPECT_EQ(Drawn("timeline", "lens_now"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    harness_.shell().Post(ui::ShowStep{5});
    test->SleepNoSkip(0.5F, 1.0F / 60);
    Open(test, ImGuiKey_P);
    EXPECT_EQ(lens().step, 5);
    EXPECT_TRUE(lens().plays);
    const Interval times = analysis::TimesOfStep(*snapshot_, 5).value();
    EXPECT_EQ(lens().start_ns, times.start_ns);
    EXPECT_EQ(lens().end_ns, times.end_ns);
    EXPECT_LE(harness_.context().view.start_ns, times.start_ns);
    EXPECT_GE(harness_.context().view.end_ns, times.end_ns);
    const int64_t before_ns = lens().now_ns;
    test->SleepNoSkip(0.5F, 1.0F / 60);
    EXPECT_GT(lens().now_ns, before_ns);
    test->KeyPress(ImGuiKey_Space);
    test->Yield(2);
    EXPECT_FALSE(lens().plays);
    const int64_t stopped_ns = lens().now_ns;
    test->SleepNoSkip(0.3F, 1.0F / 60);
    EXPECT_EQ(lens().now_ns, stopped_ns);
    test->KeyPress(ImGuiKey_Space);
    test->Yield(2);
    EXPECT_TRUE(lens().plays);
  }));
  ASSERT_NE(Drawn("timeline", "lens_now"), nullptr);
  EXPECT_THAT(Drawn("timeline", "lens_now")->text, HasSubstr("step 5"));
}

TEST_F(LensTest, TheArrowsStepThroughOpsAndEveryRankIsTold) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenStopped(test);
    harness_.shell().Post(ui::SeekLens{lens().start_ns});
    test->Yield(2);
    const std::vector<int64_t> times = lens().moments->boundaries();
    const ui::View view = harness_.context().view;
    for (size_t at = 1; at <= 12; ++at) {
      test->KeyPress(ImGuiKey_RightArrow);
      test->Yield(2);
      ASSERT_EQ(lens().now_ns, times[at]);
      // What the command line says of that moment, too.
      const analysis::Moment moment =
          analysis::Moments(snapshot_, {times[at], times[at] + 1}).At(times[at]);
      for (const analysis::RankMoment& rank : moment.ranks) {
        const std::string id = std::to_string(rank.rank);
        ASSERT_NE(Drawn("timeline", "moment:" + id), nullptr);
        EXPECT_EQ(Drawn("timeline", "moment:" + id)->text,
                  MomentSentence(rank, analysis::EnglishMomentWords()));
        ASSERT_NE(Drawn("memory", "live:" + id), nullptr);
        EXPECT_EQ(std::get<int64_t>(Drawn("memory", "live:" + id)->value), rank.live_bytes);
      }
    }
    test->KeyPress(ImGuiKey_LeftArrow);
    test->Yield(2);
    EXPECT_EQ(lens().now_ns, times[11]);
    EXPECT_EQ(harness_.context().view.start_ns, view.start_ns);  // nothing was panned
  }));
}

TEST_F(LensTest, MinusAndEqualChangeTheSpeedAsAClickDoes) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenStopped(test);
    harness_.shell().Post(ui::SetLensSlowness{100});
    const auto slowness_after = [&](ImGuiKey key) {
      test->KeyPress(key);
      test->Yield(2);
      return lens().slowness;
    };
    test->Yield(2);
    EXPECT_EQ(slowness_after(ImGuiKey_Minus), 1'000);
    EXPECT_EQ(slowness_after(ImGuiKey_Minus), 10'000);
    EXPECT_EQ(slowness_after(ImGuiKey_Minus), 10'000);
    EXPECT_EQ(slowness_after(ImGuiKey_Equal), 1'000);
    EXPECT_EQ(Drawn("timeline", "lens_speed")->text, "1/1000");
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "lens_speed"));
    test->MouseClick();
    test->Yield(2);
    EXPECT_EQ(lens().slowness, 10'000);
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "lens_play"));
    test->MouseClick();
    test->Yield(2);
    EXPECT_TRUE(lens().plays);
  }));
}

TEST_F(LensTest, ItsPositionCanBeDragged) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenStopped(test);
    const ImVec2 middle = PlaceOf(harness_, "timeline", "lens_now");
    test->MouseMoveToPos(middle);
    test->MouseDown();
    test->Yield(2);
    const int64_t first_ns = lens().now_ns;
    EXPECT_GT(first_ns, lens().start_ns);
    test->MouseMoveToPos({middle.x + 100, middle.y});
    test->Yield(2);
    test->MouseUp();
    test->Yield(2);
    const ui::View& view = harness_.context().view;
    EXPECT_GT(lens().now_ns, first_ns);
    EXPECT_LT(lens().now_ns, view.end_ns);
  }));
}

TEST_F(LensTest, EscapeClosesItAndKeepsTheSelection) {
  const query::OpRunId selected = harness_.context().selection.op_run;
  ASSERT_FALSE(selected.is_none());
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Open(test, ImGuiKey_P);
    test->KeyPress(ImGuiKey_Escape);
    test->Yield(2);
  }));
  EXPECT_FALSE(lens().is_on);
  EXPECT_EQ(harness_.context().selection.op_run, selected);
  EXPECT_EQ(Drawn("timeline", "lens_now"), nullptr);
  EXPECT_EQ(Drawn("memory", "live:0"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    Open(test, ImGuiKey_P);
    test->KeyPress(ImGuiKey_P);
    test->Yield(2);
    EXPECT_FALSE(lens().is_on);
    Open(test, ImGuiKey_P);
    test->MouseMoveToPos(PlaceOf(harness_, "timeline", "lens_close"));
    test->MouseClick();
    test->Yield(2);
    EXPECT_FALSE(lens().is_on);
  }));
}

TEST_F(LensTest, ShiftPPlaysWhatIsInView) {
  harness_.shell().Post(ui::ShowStep{6});
  harness_.Frames(30);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->SleepNoSkip(0.4F, 1.0F / 60);
    const ui::View view = harness_.context().view;
    Open(test, ImGuiMod_Shift | ImGuiKey_P);
    EXPECT_EQ(lens().step, -1);
    EXPECT_EQ(lens().start_ns, view.start_ns);
    EXPECT_EQ(lens().end_ns, view.end_ns);
  }));
}

TEST_F(LensTest, ChineseSaysItInChinese) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    OpenStopped(test);
    harness_.shell().Post(ui::SeekLens{lens().start_ns + (lens().end_ns - lens().start_ns) / 3});
    harness_.shell().Post(ui::SetLanguage{ui::Language::kChinese});
    test->Yield(4);
  }));
  ASSERT_NE(Drawn("timeline", "moment:0"), nullptr);
  EXPECT_THAT(Drawn("timeline", "moment:0")->text, HasSubstr("正在"));
}

TEST_F(LensTest, XShowsThePlanUnderEachLane) {
  EXPECT_EQ(Drawn("timeline", "plan"), nullptr);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    harness_.shell().Post(ui::ShowStep{5});
    test->SleepNoSkip(0.5F, 1.0F / 60);
    const ui::Box before = Drawn("timeline", "rank:1")->box;
    test->KeyPress(ImGuiKey_X);
    for (int i = 0; i < 4000 && Drawn("timeline", "plan_ops") == nullptr; ++i) test->Yield();
    ASSERT_NE(Drawn("timeline", "plan"), nullptr);
    EXPECT_THAT(Drawn("timeline", "plan")->text, HasSubstr("step 5 over all ranks: planned"));
    ASSERT_NE(Drawn("timeline", "plan_ops"), nullptr);
    EXPECT_GT(std::get<int64_t>(Drawn("timeline", "plan_ops")->value), 0);
    EXPECT_GT(Drawn("timeline", "rank:1")->box.y0, before.y0);
    // Another step has its own sentence.
    harness_.shell().Post(ui::ShowStep{7});
    const auto is_of_7 = [&] {
      return Drawn("timeline", "plan")->text.find("step 7 over all ranks: planned") !=
             std::string::npos;
    };
    for (int i = 0; i < 4000 && !is_of_7(); ++i) test->Yield();
    EXPECT_TRUE(is_of_7());
    test->KeyPress(ImGuiKey_X);
    test->Yield(3);
    EXPECT_EQ(Drawn("timeline", "plan"), nullptr);
    EXPECT_EQ(Drawn("timeline", "rank:1")->box.y0, before.y0);
  }));
}

TEST_F(LensTest, LensAndPlanBringTheTimelineToTheFront) {
  for (const ImGuiKeyChord key : {ImGuiKey_P, ImGuiKey_X}) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->KeyPress(ImGuiMod_Ctrl | ImGuiKey_7);
      test->Yield(5);
      ASSERT_EQ(Drawn("timeline", "minimap"), nullptr);
      test->KeyPress(key);
      test->Yield(5);
      EXPECT_NE(Drawn("timeline", "minimap"), nullptr);
    }));
  }
}

TEST_F(LensTest, ClosingTheRunClosesIt) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) { Open(test, ImGuiKey_P); }));
  harness_.shell().Post(ui::CloseRun{});
  harness_.Frames(3);
  EXPECT_FALSE(lens().is_on);
  harness_.shell().Post(ui::OpenLens{0});  // of no run
  harness_.Frames(3);
  EXPECT_FALSE(lens().is_on);
}

}  // namespace
}  // namespace shardscope::ui_test
