// What the mouse can do, the keyboard can: every item that a click acts on is reached by Tab, which
// shows that it has been, and Enter or Space click it.
#include <gtest/gtest.h>
#include <imgui_internal.h>

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/lesson/lesson_snapshot.h"
#include "tests/ui/harness.h"
#include "tests/ui/steered_run_test_util.h"
#include "ui/shell/panel_windows.h"

namespace shardscope::ui_test {
namespace {

// Pictures in which the mouse points at a place, and what has a tooltip only. What a click does
// there keys do elsewhere: in a list or table beside it, or by keys of their own: of the ruler E
// and Shift with arrows, of lanes those that lead from op to op (with Shift they add to the
// selection) and Shift+Z, of memory M and Shift+M with a selected op, of points the row and then
// those keys.
const std::set<std::string> kForTheMouse = {"##ruler", "##minimap", "##lanes",  "##memory",
                                            "##chart", "##scatter", "##matrix", "map",
                                            "label",   "name",      "state",    "number"};

// Presses Tab until the item has the focus.
void TabTo(ImGuiTestContext* test, ImGuiID wanted, int most) {
  do {
    test->KeyPress(ImGuiKey_Tab);
  } while (ImGui::GetFocusID() != wanted && --most > 0);
  EXPECT_EQ(ImGui::GetFocusID(), wanted);
}

class KeyboardTest : public testing::Test {
 protected:
  KeyboardTest() {
    harness_.shell().OpenSnapshot(analysis::MakeLessonSnapshot(4, 24, 12));
    harness_.Frames(8);
  }
  void Press(std::initializer_list<ImGuiKeyChord> chords) {
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      for (const ImGuiKeyChord chord : chords) test->KeyPress(chord);
    }));
    harness_.Frames(6);
  }
  // Of what is seen of a panel.
  ImGuiTestItemList ItemsOf(const std::string& panel) {
    ImGuiTestItemList items;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      test->GatherItems(&items, test->GetID(("//###" + panel).c_str()), 9);
    }));
    return items;
  }
  static bool FocusIsSeen() { return ImGui::GetIO().NavVisible; }
  static std::string FocusedPanel() {
    const ImGuiWindow* window = ImGui::GetCurrentContext()->NavWindow;
    const std::string name = window == nullptr ? "" : window->RootWindow->Name;
    return name.substr(std::min(name.find("###"), name.size()));
  }
  // Presses Tab until the item with this label has the focus, then the chords. The Test Engine
  // takes what is seen of the focus away between two scripts.
  void PressOn(const std::string& panel, const char* label,
               std::initializer_list<ImGuiKeyChord> chords) {
    ImGuiID wanted = 0;
    ImGuiTestItemList items = ItemsOf(panel);
    for (const ImGuiTestItemInfo& item : items) {
      if (item.DebugLabel == std::string(label)) wanted = item.ID;
    }
    ASSERT_NE(wanted, 0U) << label;
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      TabTo(test, wanted, items.GetSize());
      for (const ImGuiKeyChord chord : chords) test->KeyPress(chord);
      test->Yield(6);
    }));
  }

  Harness harness_;
};

TEST_F(KeyboardTest, ReachesWhatCanBeClickedInEveryPanel) {
  for (const shell::PanelWindow& panel : shell::PanelWindows()) {
    harness_.shell().Post(ui::FocusPanel{panel.id});
    harness_.Frames(8);
    bool has_goal = false;
    ImGuiTestItemList items = ItemsOf(panel.id);
    for (const ImGuiTestItemInfo& item : items) {
      if (*item.DebugLabel == '\0') continue;  // out of sight
      if ((item.ItemFlags & ImGuiItemFlags_NoNav) != 0) {
        EXPECT_TRUE(kForTheMouse.contains(item.DebugLabel)) << panel.id << ": " << item.DebugLabel;
      } else {
        has_goal |= (item.ItemFlags & ImGuiItemFlags_Disabled) == 0;
      }
    }
    Press({ImGuiKey_Tab});
    EXPECT_EQ(FocusIsSeen(), has_goal) << panel.id;
    EXPECT_EQ(FocusedPanel(), "###" + std::string(panel.id));
  }
}

TEST_F(KeyboardTest, ArrowsMoveTheViewUntilTabIsPressedAndAfterEscape) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    // Where the view is when it has come to rest after a key.
    const auto start_after = [&](ImGuiKey key) {
      test->KeyPress(key);
      test->SleepNoSkip(0.5F, 1.0F / 60);
      return harness_.context().view.start_ns;
    };
    const int64_t moved_ns = start_after(ImGuiKey_LeftArrow);
    EXPECT_LT(start_after(ImGuiKey_LeftArrow), moved_ns);
    EXPECT_FALSE(FocusIsSeen());
    const int64_t before_ns = start_after(ImGuiKey_Tab);
    EXPECT_TRUE(FocusIsSeen());
    EXPECT_EQ(start_after(ImGuiKey_LeftArrow), before_ns);
    EXPECT_EQ(start_after(ImGuiKey_DownArrow), before_ns);
    test->KeyPress(ImGuiKey_Escape);
    test->Yield(2);
    EXPECT_FALSE(FocusIsSeen());
    EXPECT_LT(start_after(ImGuiKey_LeftArrow), before_ns);
    test->KeyPress(ImGuiKey_Tab);
    test->Yield(2);
    EXPECT_TRUE(FocusIsSeen());
  }));
}

TEST_F(KeyboardTest, SpaceClicksWhatHasTheFocus) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  ASSERT_FALSE(harness_.context().critical_path.is_on);
  PressOn("timeline", "##critical_path", {ImGuiKey_Space});
  EXPECT_TRUE(harness_.context().critical_path.is_on);
}

TEST_F(KeyboardTest, ShiftAndTabGoBack) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const auto focus_after = [&](ImGuiKeyChord chord) {
      test->KeyPress(chord);
      test->Yield(2);
      return ImGui::GetFocusID();
    };
    const ImGuiID first = focus_after(ImGuiKey_Tab);
    EXPECT_NE(focus_after(ImGuiKey_Tab), first);
    EXPECT_EQ(focus_after(ImGuiMod_Shift | ImGuiKey_Tab), first);
  }));
}

TEST_F(KeyboardTest, GoesOverTheCellsOfRanks) {
  const auto show = [&] {
    harness_.shell().Post(ui::FocusPanel{"ranks"});
    harness_.Frames(8);
  };
  const auto tooltip = [&] {
    const ui::DrawnItem* tip = harness_.log().Find("ranks", "tooltip");
    return tip == nullptr ? std::string() : tip->text;
  };
  show();
  // On the label of the first rank.
  PressOn("ranks", "##cells", {ImGuiKey_DownArrow, ImGuiKey_Enter});
  EXPECT_EQ(harness_.context().lanes.pinned_ranks, (std::set<int32_t>{1}));
  show();
  PressOn("ranks", "##cells", {ImGuiMod_Shift | ImGuiKey_Enter});
  EXPECT_EQ(harness_.context().lanes.hidden_ranks, (std::set<int32_t>{1}));
  show();
  PressOn("ranks", "##cells",
          {ImGuiKey_DownArrow, ImGuiKey_RightArrow, ImGuiKey_RightArrow, ImGuiKey_RightArrow});
  EXPECT_EQ(tooltip(), "rank 2, step 2");
  PressOn("ranks", "##cells", {ImGuiKey_Enter});
  EXPECT_NE(harness_.log().Find("timeline", "rank:2"), nullptr);
  const ui::View& view = harness_.context().view;
  const query::Step& step = harness_.context().snapshot->ranks[2].steps[2];
  EXPECT_LT(view.start_ns, step.end_ns);
  EXPECT_GT(view.end_ns, step.start_ns);
  // Arrows stop at the edges.
  show();
  PressOn("ranks", "##cells",
          {ImGuiKey_UpArrow, ImGuiKey_UpArrow, ImGuiKey_UpArrow, ImGuiKey_LeftArrow,
           ImGuiKey_LeftArrow, ImGuiKey_LeftArrow, ImGuiKey_LeftArrow, ImGuiKey_RightArrow});
  EXPECT_EQ(tooltip(), "rank 0, step 0");
}

TEST_F(KeyboardTest, ArrowsWalkThroughAMenuThatWasOpenedByMouse) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  const ui::View before = harness_.context().view;
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->MouseMoveToPos(PlaceOf(harness_, "top_bar", "scope"));
    test->MouseClick();
    test->Yield(3);
    test->KeyPress(ImGuiKey_DownArrow);
    EXPECT_TRUE(FocusIsSeen());
    const ImGuiID first = ImGui::GetFocusID();
    test->KeyPress(ImGuiKey_DownArrow);
    EXPECT_NE(ImGui::GetFocusID(), first);
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(3);
    EXPECT_TRUE(harness_.context().focus.scope.has_value());
    test->SleepNoSkip(0.5F, 1.0F / 60);
  }));
  EXPECT_EQ(harness_.context().view.start_ns, before.start_ns);
  EXPECT_EQ(harness_.context().view.end_ns, before.end_ns);
}

TEST_F(KeyboardTest, ArrowsGoFromTheHitThatWasClickedToTheNext) {
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_Slash);
    test->Yield(3);
    const std::string query = "kind:all_gather rank:1";
    test->KeyChars(query.c_str());
    const auto is_found = [&] {
      const auto& found = harness_.context().search.found;
      return found != nullptr && found->text == query;
    };
    for (int i = 0; i < 2000 && !is_found(); ++i) {
      test->Yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    test->Yield(2);
    test->MouseMoveToPos(PlaceOf(harness_, "search", "hit:0"));
    test->MouseClick();
    test->SleepNoSkip(0.5F, 1.0F / 60);
    const ui::View before = harness_.context().view;
    const ImGuiID clicked = ImGui::GetFocusID();
    test->KeyPress(ImGuiKey_DownArrow);
    EXPECT_NE(ImGui::GetFocusID(), clicked);
    test->SleepNoSkip(0.5F, 1.0F / 60);
    EXPECT_EQ(harness_.context().view.end_ns, before.end_ns);
    test->KeyPress(ImGuiKey_Enter);
    test->Yield(2);
  }));
  const ui::SearchState& search = harness_.context().search;
  ASSERT_TRUE(search.found != nullptr && search.current);
  EXPECT_EQ(search.current->op_run, search.found->result.hits[1].op_run);
}

TEST_F(KeyboardTest, WhatFieldsLeaveAloneGoesPastThem) {
  EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
    const auto press = [&](ImGuiKeyChord chord) {
      test->KeyPress(chord);
      test->Yield(4);
    };
    press(ImGuiKey_Slash);
    test->KeyChars("gather");
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    for (const auto& [chord, overlay] :
         {std::pair(ImGuiMod_Ctrl | ImGuiMod_Shift | ImGuiKey_P, ui::Overlay::kPalette),
          {ImGuiKey_F1, ui::Overlay::kHelp},
          {ImGuiKey_F10, ui::Overlay::kMenu}}) {
      press(chord);
      EXPECT_EQ(harness_.context().overlay, overlay);
      press(ImGuiKey_Escape);
      test->SetRef("//##search");
      test->ItemInput("##query");
    }
    press(ImGuiMod_Ctrl | ImGuiKey_L);
    EXPECT_EQ(harness_.context().language, ui::Language::kChinese);
    press(ImGuiMod_Ctrl | ImGuiKey_T);
    EXPECT_EQ(harness_.context().theme_name, ui::ThemeName::kLight);
    press(ImGuiMod_Ctrl | ImGuiKey_S);
    EXPECT_EQ(harness_.shell().TakeAskedPicture(), ui::PictureKind::kPng);
    EXPECT_TRUE(ImGui::GetIO().WantTextInput);
    // Of the field, and not of the view.
    const int64_t start_ns = harness_.context().view.start_ns;
    press(ImGuiMod_Ctrl | ImGuiKey_A);
    press(ImGuiKey_Backspace);
    EXPECT_EQ(harness_.context().search.text, "");
    press(ImGuiMod_Ctrl | ImGuiKey_Z);
    EXPECT_EQ(harness_.context().search.text, "gather");
    EXPECT_EQ(harness_.context().view.start_ns, start_ns);
    press(ImGuiMod_Ctrl | ImGuiKey_O);
    test->Yield(8);
    test->KeyChars("/no/such/run");
    press(ImGuiKey_Enter);
    test->Yield(8);
  }));
  EXPECT_NE(harness_.log().Find("runs", "error"), nullptr);
}

class SteeredTest : public SteeredRunTest {
 protected:
  // Presses the chords, each of which may ask for something, on the slider.
  void PressOnSlider(std::initializer_list<ImGuiKeyChord> chords) {
    harness_.shell().Post(ui::FocusPanel{"run_control"});
    harness_.Frames(8);
    EXPECT_TRUE(harness_.Drive([&](ImGuiTestContext* test) {
      TabTo(test, test->GetID("//###run_control/prefetch.forward/slider"), 100);
      for (const ImGuiKeyChord chord : chords) {
        test->KeyPress(chord);
        test->Yield(4);
      }
    }));
  }
};

TEST_F(SteeredTest, ArrowsAloneTurnTheSliderThatHasTheKeyboardByOne) {
  PressOnSlider({ImGuiKey_RightArrow, ImGuiKey_Enter, ImGuiKey_Space,
                 ImGuiMod_Shift | ImGuiKey_Space, ImGuiMod_Alt | ImGuiKey_LeftArrow,
                 ImGuiMod_Ctrl | ImGuiKey_RightArrow, ImGuiKey_UpArrow});
  PressOnSlider({ImGuiKey_RightArrow, ImGuiKey_LeftArrow});
  EXPECT_TRUE(WaitForAsked({"prefetch.forward=1", "prefetch.forward=2", "prefetch.forward=1"}));
}

TEST_F(SteeredTest, AltAndAnArrowGoBackThroughViewsBesideASliderThatWasClicked) {
  const auto set_view = [&](int64_t start_ns) {
    harness_.shell().Post(ui::SetView{start_ns, start_ns + 5'000'000, false, false});
    EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->SleepNoSkip(1.0F, 1.0F / 60); }));
  };
  set_view(11'000'000);
  set_view(30'000'000);
  PressOnSlider({ImGuiMod_Alt | ImGuiKey_LeftArrow});
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) { test->SleepNoSkip(0.5F, 1.0F / 60); }));
  EXPECT_EQ(harness_.context().view.start_ns, 11'000'000);
  EXPECT_TRUE(Asked().empty());
}

TEST_F(SteeredTest, WithTheLensAnArrowDoesOneThing) {
  harness_.shell().Post(ui::OpenLens{1});
  harness_.shell().Post(ui::PlayLens{false});
  ASSERT_TRUE(
      harness_.Until([&] { return harness_.context().lens.moment.has_value(); }, kSteeredSeconds));
  const ui::LensState& lens = harness_.context().lens;
  harness_.shell().Post(ui::SeekLens{lens.start_ns});
  PressOnSlider({ImGuiKey_RightArrow});
  EXPECT_TRUE(WaitForAsked({"prefetch.forward=1"}));
  EXPECT_EQ(lens.now_ns, lens.start_ns);
  harness_.shell().Post(ui::FocusPanel{"timeline"});
  harness_.Frames(8);
  EXPECT_TRUE(harness_.Drive([](ImGuiTestContext* test) {
    test->KeyPress(ImGuiKey_RightArrow);
    test->Yield(4);
  }));
  EXPECT_GT(lens.now_ns, lens.start_ns);
  EXPECT_EQ(Asked().size(), 1U);
}

}  // namespace
}  // namespace shardscope::ui_test
