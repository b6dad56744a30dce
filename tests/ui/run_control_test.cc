// Run control: what becomes of a knob that was turned is in view, wherever the knobs are scrolled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <string>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "tests/ui/steered_run_test_util.h"

namespace shardscope::ui_test {
namespace {

ui::Box BoxOf(const ImGuiWindow& window) {
  const ImRect& inner = window.InnerRect;
  return {inner.Min.x, inner.Min.y, inner.Max.x, inner.Max.y};
}

bool LiesIn(const ui::Box& box, const ui::Box& outer) {
  return box.x0 >= outer.x0 - 1 && box.x1 <= outer.x1 + 1 && box.y0 >= outer.y0 - 1 &&
         box.y1 <= outer.y1 + 1;
}

struct AnswerCase {
  int width;
  int height;
  float scale;
};
constexpr AnswerCase kAnswerCases[] = {
    {1600, 900, 1}, {1100, 700, 1}, {1100, 700, 1.46F}, {1600, 900, 2}, {1100, 700, 2}};

class RunControlTest : public SteeredRunTest {
 protected:
  void Show(const AnswerCase& size) {
    harness_.Resize(size.width, size.height);
    harness_.shell().Post(ui::SetScale{size.scale});
    harness_.shell().Post(ui::FocusPanel{"run_control"});
    harness_.Frames(12);
  }
  const ui::DrawnItem* Drawn(const std::string& id) const {
    return harness_.log().Find("run_control", id);
  }
  // Of a window of 1600 by 900 and of the panel.
  bool IsSeen(const std::string& id) const {
    const ui::DrawnItem* item = Drawn(id);
    const ImGuiWindow* panel = ImGui::FindWindowByName("###run_control");
    return item != nullptr && LiesIn(item->box, {0, 0, 1600, 900}) &&
           LiesIn(item->box, BoxOf(*panel)) &&
           LiesIn(item->box, BoxOf(*PartOf("run_control", "answer")));
  }
  void ScrollToEnd() {
    ImGuiWindow* knobs = PartOf("run_control", "knobs");
    ASSERT_NE(knobs, nullptr);
    ASSERT_GT(knobs->ScrollMax.y, 0);
    ImGui::SetScrollY(knobs, knobs->ScrollMax.y);
    harness_.Frames(3);
    ASSERT_EQ(knobs->Scroll.y, knobs->ScrollMax.y);
  }
  std::string TooltipOf(const char* item) {
    std::string text;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->MouseMove(item);
      test->SleepNoSkip(0.6F, 1.0F / 60);  // it rests
      if (const ui::DrawnItem* tip = Drawn("tooltip")) text = tip->text;
    }));
    return text;
  }
};

TEST_F(RunControlTest, AChangeThatWaitsAndItsWayBackAreInViewAtAnyScroll) {
  LetAskedWait();
  Show(kAnswerCases[0]);
  harness_.shell().Post(ui::SetKnob{"prefetch.forward", "1"});
  ASSERT_TRUE(harness_.Until([&] { return Drawn("applies_at") != nullptr; }, kSteeredSeconds));
  harness_.Frames(4);
  EXPECT_TRUE(IsSeen("applies_at"));
  EXPECT_TRUE(IsSeen("link:revert"));
  ScrollToEnd();
  EXPECT_TRUE(IsSeen("applies_at"));
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->ItemClick("//###run_control/revert");
    test->MouseMoveToPos({5, 5});
  }));
  EXPECT_TRUE(WaitForAsked({"prefetch.forward=1", "prefetch.forward=0"}));
}

TEST_F(RunControlTest, WhyAValueIsRefusedIsInViewAndOnItsKnob) {
  const char* knob = "//###run_control/prefetch.forward/slider";
  Show(kAnswerCases[0]);
  RefuseAsked("too few units for that");
  harness_.shell().Post(ui::SetKnob{"prefetch.forward", "1"});
  ASSERT_TRUE(harness_.Until([&] { return Drawn("error") != nullptr; }, kSteeredSeconds));
  harness_.Frames(4);
  EXPECT_TRUE(IsSeen("error"));
  EXPECT_THAT(TooltipOf(knob), testing::HasSubstr("Refused: too few units for that"));
  EXPECT_THAT(TooltipOf("//###run_control/prefetch.limit/slider"),
              testing::Not(testing::HasSubstr("Refused")));
  // One that is taken up has no reason any more.
  RefuseAsked("");
  harness_.shell().Post(ui::SetKnob{"prefetch.forward", "2"});
  ASSERT_TRUE(WaitForAsked({"prefetch.forward=2"}));
  ASSERT_TRUE(harness_.Until([&] { return Drawn("error") == nullptr; }, kSteeredSeconds));
  EXPECT_THAT(TooltipOf(knob), testing::Not(testing::HasSubstr("Refused")));
}

TEST_F(RunControlTest, ARefusalForLackOfMemoryCanBePutAwayInMemory) {
  const auto said = [this] { return harness_.log().Find("memory", "out_of_memory:0") != nullptr; };
  Show(kAnswerCases[0]);
  RefuseAsked("out of memory: schedule 'full' can need 2 MB on a rank. At the peak runs op 5");
  harness_.shell().Post(ui::SetKnob{"prefetch.forward", "1"});
  ASSERT_TRUE(harness_.Until(said, kSteeredSeconds));
  harness_.Frames(4);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "memory", "put_away"));
    test->MouseClick();
    test->MouseMoveToPos({5, 5});
  }));
  EXPECT_TRUE(harness_.Until([&] { return !said(); }, kSteeredSeconds));
  EXPECT_NE(Drawn("error"), nullptr);  // stays in Run control
  RefuseAsked("out of memory: schedule 'full' can need 3 MB on a rank. At the peak runs op 5");
  harness_.shell().Post(ui::SetKnob{"prefetch.forward", "2"});
  EXPECT_TRUE(harness_.Until(said, kSteeredSeconds));  // another one
}

TEST_F(RunControlTest, AnotherRunIsShownFromTheTop) {
  Show(kAnswerCases[1]);
  ScrollToEnd();
  harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(2, 4, 99));
  harness_.shell().Post(ui::FocusPanel{"run_control"});
  harness_.Frames(8);
  const ImGuiWindow* knobs = PartOf("run_control", "knobs");
  EXPECT_GT(knobs->ScrollMax.y, 0);
  EXPECT_EQ(knobs->Scroll.y, 0);
}

TEST_F(RunControlTest, AKnobThatIsAskedForIsSeenWholeAndItsChoiceInForceHasTheKeyboard) {
  Show(kAnswerCases[1]);
  const ImGuiWindow* knobs = PartOf("run_control", "knobs");
  ASSERT_NE(knobs, nullptr);
  for (const bool from_end : {true, false}) {
    if (from_end) {
      ScrollToEnd();
    } else {  // and where it is behind another tab
      harness_.shell().Post(ui::FocusPanel{"lessons"});
      harness_.Frames(8);
    }
    harness_.shell().Post(ui::ShowKey{.key = "prefetch.backward"});
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->Yield(10);
      EXPECT_EQ(ImGui::GetFocusID(),
                test->GetID("//###run_control/prefetch.backward/segments/pre"));
    }));
    const ui::DrawnItem* ring = Drawn("shown_key");
    ASSERT_NE(ring, nullptr);
    EXPECT_EQ(ring->text, "prefetch.backward");
    EXPECT_TRUE(LiesIn(ring->box, BoxOf(*knobs)));
    const ui::DrawnItem* label = Drawn("knob:prefetch.backward");
    ASSERT_NE(label, nullptr);
    EXPECT_TRUE(LiesIn(label->box, BoxOf(*knobs)));
  }
}

class ChangeCardTest : public testing::Test {
 protected:
  ChangeCardTest() {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
    harness_.Frames(8);
  }
  void Show(const AnswerCase& size, ui::Language language) {
    harness_.Resize(size.width, size.height);
    harness_.shell().Post(ui::SetScale{size.scale});
    harness_.shell().Post(ui::SetLanguage{language});
    harness_.shell().Post(ui::FocusPanel{"run_control"});
    harness_.Frames(12);
  }

  Harness harness_;
};

TEST_F(ChangeCardTest, IsInViewAndLeavesTheKnobsAtLeastHalfOfThePanel) {
  for (const AnswerCase& size : kAnswerCases) {
    for (const ui::Language language : {ui::Language::kEnglish, ui::Language::kChinese}) {
      Show(size, language);
      const ui::Box panel = BoxOf(*ImGui::FindWindowByName("###run_control"));
      ImGuiWindow* knobs = PartOf("run_control", "knobs");
      ImGuiWindow* answer = PartOf("run_control", "answer");
      ASSERT_TRUE(knobs != nullptr && answer != nullptr);
      EXPECT_GE(knobs->Size.y, 0.48F * (panel.y1 - panel.y0)) << size.width << " " << size.scale;
      EXPECT_TRUE(LiesIn(BoxOf(*knobs), panel));
      EXPECT_TRUE(LiesIn(BoxOf(*answer), panel));
      EXPECT_LE(knobs->Pos.y + knobs->Size.y, answer->Pos.y + 1);
      // At the usual size all of it is seen, else it scrolls.
      const bool is_usual = size.height == 900 && size.scale == 1;
      if (is_usual) {
        EXPECT_EQ(answer->ScrollMax.y, 0);
      }
      ImGui::SetScrollY(answer, answer->ScrollMax.y);
      harness_.Frames(3);
      const ui::DrawnItem* row = harness_.log().Find("run_control", "change.peak_bytes.after");
      ASSERT_NE(row, nullptr);
      EXPECT_GE(row->box.y0, answer->Pos.y) << size.width << " " << size.scale;
      EXPECT_LE(row->box.y1, answer->Pos.y + answer->Size.y) << size.width << " " << size.scale;
    }
  }
}

TEST_F(ChangeCardTest, IsScrolledByTheKeyboardWhereItIsCut) {
  Show({1100, 700, 2}, ui::Language::kEnglish);
  const ImGuiWindow* answer = PartOf("run_control", "answer");
  ASSERT_NE(answer, nullptr);
  ASSERT_GT(answer->ScrollMax.y, 0);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const ImGuiID wanted = test->GetID("//###run_control/answer_text");
    for (int i = 0; i < 100 && ImGui::GetFocusID() != wanted; ++i) test->KeyPress(ImGuiKey_Tab);
    ASSERT_EQ(ImGui::GetFocusID(), wanted);
    for (int i = 0; i < 100 && answer->Scroll.y < answer->ScrollMax.y; ++i) {
      test->KeyPress(ImGuiKey_DownArrow);
      test->Yield(2);
    }
    EXPECT_EQ(answer->Scroll.y, answer->ScrollMax.y);
    test->KeyPress(ImGuiKey_UpArrow);
    test->Yield(2);
    EXPECT_LT(answer->Scroll.y, answer->ScrollMax.y);
  }));
}

}  // namespace
}  // namespace shardscope::ui_test
